/** Connections that failed for good, or that are still tried when the log ends. */
import type { Job } from '../../model/job.js';
import { troubles } from '../queries.js';

/** Connections that failed for good, or that are still tried when the log ends. */
export const failedConnections = (job: Job) => [...troubles(job, 'connect'), ...troubles(job, 'retry')];
