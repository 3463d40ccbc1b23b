/**
 * Writes docs/doctor.md from the rules of the doctor.
 *
 * usage: node scripts/doctor-page.js     after a build
 */
import { writeFileSync } from 'node:fs';
import { rulesPage } from '../dist/doctor/report/rules-page.js';

writeFileSync(new URL('../docs/doctor.md', import.meta.url), await rulesPage());
