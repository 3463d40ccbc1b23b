/** A rank whose behaviour the test chooses by its first argument. */
import { Bootstrap } from '../../../dist/bootstrap/bootstrap.js';

const [behaviour, ...rest] = process.argv.slice(2);
const rank = Number(process.env.RANK);
const size = Number(process.env.WORLD_SIZE);

const behaviours = {
  environment() {
    const {
      RANK,
      WORLD_SIZE,
      LOCAL_RANK,
      LOCAL_WORLD_SIZE,
      MASTER_ADDR,
      MASTER_PORT,
      TUTTI_ID,
      TUTTI_SECRET,
    } = process.env;
    console.log(
      JSON.stringify({
        RANK,
        WORLD_SIZE,
        LOCAL_RANK,
        LOCAL_WORLD_SIZE,
        MASTER_ADDR,
        MASTER_PORT,
        TUTTI_ID,
        TUTTI_SECRET,
        rest,
      }),
    );
  },
  async meet() {
    for (let round = 0; round < 2; round++) {
      const bootstrap = await Bootstrap.fromLaunchEnvironment({ timeoutMs: 15_000 });
      const parts = await bootstrap.allGather(Buffer.from(`r${rank}`), 'meet');
      console.log(
        `round ${round}: ${Buffer.concat(parts)} rootRank ${bootstrap.rootRank} ${bootstrap.launch.launcher}`,
      );
      await bootstrap.close();
    }
  },
  async notice() {
    // Before a rank can end: the others get SIGTERM at once, and are to tell what they know first.
    process.on('SIGTERM', () => {});
    const bootstrap = await Bootstrap.fromLaunchEnvironment({ timeoutMs: 15_000 });
    try {
      await bootstrap.barrier('begin');
      if (rank === 1) process.kill(process.pid, 'SIGKILL');
      await bootstrap.barrier('end');
    } catch (error) {
      console.log(error.message);
    }
    await bootstrap.close();
  },
  fail() {
    if (rank === 1) process.exit(Number(rest[0]));
    setInterval(() => {}, 1000);
  },
  die() {
    if (rank === 1) process.kill(process.pid, rest[0]);
    setInterval(() => {}, 1000);
  },
  stubborn() {
    if (rank === 1) setTimeout(() => process.exit(3), 300);
    else process.on('SIGTERM', () => console.log('no'));
    setInterval(() => {}, 1000);
  },
  wait() {
    console.log(`pid ${process.pid}`);
    setInterval(() => {}, 1000);
  },
  spin() {
    console.log(`pid ${process.pid}`);
    setImmediate(() => {
      for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
    });
  },
  handle() {
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
      process.on(name, () => {
        console.log(`got ${name}`);
        process.exit(0);
      });
    }
    console.log('ready');
    setInterval(() => {}, 1000);
  },
  deaf() {
    for (const name of ['SIGINT', 'SIGTERM']) process.on(name, () => {});
    console.log(`pid ${process.pid}`);
    setInterval(() => {}, 1000);
  },
  lines() {
    const count = Number(rest[0]);
    for (let start = 0; start < count; start += 1000) {
      let block = '';
      for (let line = start; line < start + 1000; line++) block += `line ${line} of rank ${rank}\n`;
      process.stdout.write(block);
    }
  },
  flood() {
    console.log(`pid ${process.pid}`);
    setInterval(() => process.stdout.write(`${'x'.repeat(100_000)}\n`), 1);
  },
  partial() {
    process.stdout.write('no end');
    process.stderr.write('nor here');
  },
  binary() {
    process.stdout.write(Buffer.from([0, 255, 10, 254, 10]));
    process.stdout.write(Buffer.alloc(3 * 1024 * 1024 + 5, 120));
  },
  stdin() {
    let text = '';
    process.stdin.setEncoding('utf8').on('data', (chunk) => (text += chunk));
    process.stdin.on('end', () => console.log(`read '${text}' of ${size}`));
  },
};

await behaviours[behaviour]();
