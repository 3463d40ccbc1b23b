/** The public API of tutti and nothing else. */
export { type ErrorCode, TuttiError } from './errors/tutti-error.js';
