/** Makes a named segment, tells its name, and ends when told to (or is killed). */
import { SharedSegment } from '#src/system/shared-memory.js';

const segment = SharedSegment.create(4096, { method: 'posix' });
process.on('message', () => process.exit(0));
process.send(segment.announcement.name);
