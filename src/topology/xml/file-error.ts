/** Errors about a topology or graph file: they name file, line, element, what is wrong and the remedy. */
import { TuttiError } from '../../errors/tutti-error.js';
import { shown } from './notes.js';

/** An error about a place in a file; `element` is the name of the element there, if there is one. */
export function fileError(
  file: string | undefined,
  line: number,
  element: string | undefined,
  text: string,
): TuttiError {
  const place = [file ?? 'XML file', `line ${line}`];
  if (element !== undefined) place.push(`<${shown(element)}>`);
  return new TuttiError('invalidUsage', `${place.join(', ')}: ${text}`);
}
