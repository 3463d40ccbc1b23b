/**
 * Where the topology part says what it does: the texts are NCCL's own, so that people who know its logs (and tools
 * that read them) find the same lines. The caller decides where they go.
 */

/** NCCL's levels of debug output that this part uses. */
export type LogLevel = 'WARN' | 'INFO';

/** NCCL's subsystems that this part logs under. */
export type LogSubsystem = 'INIT' | 'GRAPH' | 'NET' | 'ENV' | 'P2P' | 'TUNING';

/** Receives one line of log, without the host and process prefix. */
export type LogSink = (level: LogLevel, subsystem: LogSubsystem, text: string) => void;

/** Says nothing. */
export const SILENT: LogSink = () => {};
