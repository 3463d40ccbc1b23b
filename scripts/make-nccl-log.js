/**
 * Writes a log as a large job leaves it: the lines of many ranks in one file, connections to all peers, and calls of
 * collectives. For measuring `tutti doctor`; nothing in it is a fault.
 *
 * usage: node scripts/make-nccl-log.js RANKS MEGABYTES > FILE
 */
const [ranks = 512, megabytes = 10] = process.argv.slice(2).map(Number);
const GPUS = 8;
const limit = megabytes * 1e6;

function head(rank) {
  const pid = 40_000 + rank;
  return `node${String(Math.floor(rank / GPUS)).padStart(3, '0')}:${pid}:${pid + 131} [${rank % GPUS}] NCCL INFO `;
}

function init(rank) {
  const comm = `0x55d0${rank.toString(16).padStart(8, '0')}`;
  const id = 'commId 0x9d1c54e7a2b83f06';
  const start = `ncclCommInitRankConfig comm ${comm} rank ${rank} nranks ${ranks} cudaDev ${rank % GPUS} nvmlDev ${rank % GPUS} busId ${(16 + (rank % GPUS)).toString(16)}000 ${id}`;
  const hcas = Array.from({ length: GPUS }, (_, i) => `[${i}]mlx5_${i}:1/IB`).join(' ');
  return [
    `Bootstrap: Using eth0:10.0.${rank >> 11}.${1 + (Math.floor(rank / GPUS) % 250)}<0>`,
    'cudaDriverVersion 12080',
    'NCCL version 2.28.9+cuda12.8',
    `NET/IB : Using ${hcas} [RO]; OOB eth0:10.0.0.1<0>`,
    'Using network IB',
    `${start} - Init START`,
    `comm ${comm} rank ${rank} nRanks ${ranks} nNodes ${ranks / GPUS} localRanks ${GPUS} localRank ${rank % GPUS} MNNVL 0`,
    `Trees ${Array.from({ length: 16 }, (_, i) => `[${i}] ${rank + 1}/-1/-1->${rank}->${rank - 1}`).join(' ')}`,
    '16 coll channels, 16 collnet channels, 16 nvls channels, 32 p2p channels, 4 p2p channels per peer',
    `${start} - Init COMPLETE`,
  ].map((line) => head(rank) + line);
}

function connection(rank, turn) {
  const peer = (rank + 1 + (turn >> 2)) % ranks;
  const isNear = Math.floor(peer / GPUS) === Math.floor(rank / GPUS);
  const way = isNear ? 'via P2P/CUMEM' : `[send] via NET/IB/${rank % GPUS}/GDRDMA/Shared`;
  return `${head(rank)}Channel ${String(turn % 32).padStart(2, '0')}/1 : ${rank}[${rank % GPUS}] -> ${peer}[${peer % GPUS}] ${way}`;
}

function call(rank, turn) {
  return `${head(rank)}AllReduce: opCount ${turn.toString(16)} sendbuff 0x7f6e54273800 recvbuff 0x7f6e54273800 count 12582912 datatype 7 op 0 root 0 comm 0x55d0${rank.toString(16).padStart(8, '0')} [nranks=${ranks}] stream 0x562f66b79c`;
}

let written = 0;
async function write(lines) {
  const text = `${lines.join('\n')}\n`;
  written += text.length;
  if (!process.stdout.write(text)) await new Promise((resolve) => process.stdout.once('drain', resolve));
}

const all = Array.from({ length: ranks }, (_, rank) => rank);
for (const rank of all) await write(init(rank));
for (let turn = 0; turn < 4 * ranks && written < limit / 2; turn++)
  await write(all.map((rank) => connection(rank, turn)));
for (let turn = 0; written < limit; turn++) await write(all.map((rank) => call(rank, turn)));
