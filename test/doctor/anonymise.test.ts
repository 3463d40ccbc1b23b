/** Anonymised files tell the same story without a name or an address of the original. */
import { describe, expect, it } from 'vitest';
import { Anonymiser } from '#src/doctor/anonymise/anonymiser.js';
import { suspiciousLines } from '#src/doctor/anonymise/secrets.js';
import { allHosts, knownHosts } from '#src/doctor/read/hosts.js';
import { readJob } from '#src/doctor/read/read-job.js';
import { CASES, examine } from './case-files.js';

describe('an anonymised case', () => {
  it.each(CASES.map((one) => [one.name, one] as const))(
    '%s gets the same verdicts on the same lines',
    async (_, { files }) => {
      const job = await readJob([...files].map(([name, text]) => ({ name, text: [text] })));
      const anonymiser = new Anonymiser(allHosts(job));
      for (const text of files.values()) anonymiser.learn(text);
      const changed = [...files].map(
        ([name, text]) => [anonymiser.apply(name), anonymiser.apply(text)] as const,
      );
      const brief = (verdicts: Awaited<ReturnType<typeof examine>>['verdicts']) =>
        verdicts.map(({ id, severity, confidence, evidence, consequences }) => ({
          id,
          severity,
          confidence,
          lines: evidence.map(({ file, line }) => `${anonymiser.apply(file)}:${line}`).sort(),
          // A host that a table abbreviates (`a,b` for a-host and b-host) keeps its abbreviation, which tells nothing.
          consequences: consequences
            .map((one) => one.id)
            .filter((one) => one !== 'slow-node')
            .sort(),
        }));
      expect(brief((await examine(changed)).verdicts)).toEqual(brief((await examine(files)).verdicts));
      const all = changed.flat().join('\n');
      for (const host of knownHosts(job)) expect(all).not.toContain(host);
      for (const { kind, original } of anonymiser.replacements) {
        if (kind === 'IPv4 address' && !/^10\.\d\./.test(original)) expect(all).not.toContain(original);
      }
    },
  );
});

describe('addresses', () => {
  it('of one network stay in one network, and keep their kind', () => {
    const { apply } = bound(new Anonymiser([]));
    const [a, b, c] = ['192.168.7.1', '192.168.7.2', '172.16.7.1'].map(apply) as [string, string, string];
    expect(a.split('.').slice(0, 3)).toEqual(b.split('.').slice(0, 3));
    expect(a.split('.').slice(0, 2)).not.toEqual(c.split('.').slice(0, 2));
    expect(new Set([a, b, c]).size).toBe(3);
    expect(apply('192.168.7.1')).toBe(a);
    expect(apply('fe80::5aa2:e1ff:fe0c:81d5')).toMatch(/^fe80::\w+$/);
    expect(apply('127.0.0.1 ::1 0.0.0.0 255.255.0.0')).toBe('127.0.0.1 ::1 0.0.0.0 255.255.0.0');
    expect(apply('::ffff:192.168.7.1')).toBe(`::ffff:${a}`);
  });

  it('are not seen in times, bus ids and versions', () => {
    const { apply } = bound(new Anonymiser([]));
    const text =
      '[2026-11-03 02:17:12] 0000:1b:00.0 NCCL version 2.28.9+cuda12.8 misc/socket.cc:577 mlx5_3:1';
    expect(apply(text)).toBe(text);
  });
});

describe('what the surroundings tell', () => {
  const EUI = 'e4a8:1cff:fe65:1b0c';
  it.each([
    ['an IPv6 address behind an interface', 'Using eth0:2001:db8:1234::17<0>', ['2001', '1234::17']],
    ['a link-local address with its zone', `Using [0]eth0:fe80::${EUI}%eth0<0>`, [EUI]],
    ['a network of IPv6', 'route 2001:db8:77::/48 dev eth0', ['2001:db8:77']],
    ['a host in a variable', 'MASTER_ADDR=n2.acme.corp HOSTNAME=gpunode', ['n2', 'acme', 'gpunode']],
    ['a host with a domain in prose', 'master node is login-7.acme.corp port 29500', ['login-7', 'acme']],
    ['a host of an address', 'tcp://trainer-5:29500', ['trainer-5']],
    ['a host in a system log', 'May  1 10:00:00 fatboy kernel: NVRM: Xid', ['fatboy']],
    ['hosts of a list', 'SLURM_NODELIST=gpu-[01-04],big7', ['gpu-', 'big7']],
    ['a user in a field', 'user=alice SLURM_JOB_USER=bobby', ['alice', 'bobby']],
    ['a user in a numeric id', 'uid=1000(alice) gid=100(users)', ['alice']],
    ['a mail address', 'mail alice@acme.com', ['alice', 'acme']],
    ['a login', 'ssh -p 22 alice@gateway', ['alice', 'gateway']],
    ['a prompt', '[alice@gateway ~]$ ls', ['alice', 'gateway']],
    ['a GUID', 'Node GUID: 0x946dae0300123456', ['946dae03']],
    ['a GUID in groups', '\tnode_guid:\t\t946d:ae03:0012:3456', ['946d:ae03']],
    [
      'an InfiniBand hardware address',
      'link/infiniband 00:00:10:29:fe:80:00:00:00:00:00:00:94:6d:ae:03:00:12:34:56 brd',
      ['94:6d:ae'],
    ],
    ['a serial number', 'GPU Board Serial Number: 1653923012345', ['1653923012345']],
    ['a serial number of an adapter', '[SN] Serial number: MT2042X01234', ['MT2042X01234']],
    ['a bucket', '--data s3://acme-private-bucket/x', ['acme-private']],
    ['a token by its name', 'export HF_TOKEN=abcdefghijklmnop', ['abcdefgh']],
    ['a token by its form', 'got hf_abcdefghijklmnopqrstuvwxyz0123 from', ['abcdefgh']],
    ['a key of Amazon', 'key AKIAIOSFODNN7EXAMPLE used', ['IOSFODNN7']],
    ['a secret in JSON', '{"WANDB_API_KEY": "0123456789abcdef"}', ['0123456789abcdef']],
    ['a secret in quotes', "DB_PASSWORD='my dog 7'", ['my dog']],
    ['a secret of an option', 'train.py --hub-token tr0ub4dor --lr 3', ['tr0ub4dor']],
    ['an authorisation', 'Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc', ['eyJ', 'abc']],
    ['a password in an address', 'mysql://bob:s3cr3t@db.corp.acme.com/x', ['bob', 's3cr3t', 'acme']],
    ['a simple authorisation', 'authorization: Basic YWxpY2U6', ['YWxp']],
    [
      'a private key',
      '-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nq83vEjRWeJ\n-----END RSA PRIVATE KEY-----',
      ['MIIEp', 'q83v'],
    ],
  ])('%s is replaced', (_, text, gone) => {
    const changed = new Anonymiser([]).apply(text);
    for (const word of gone) expect(changed).not.toContain(word);
    expect(changed.split('\n').length).toBe(text.split('\n').length);
  });

  it.each([
    'eos_token_id=2 pad_token: <pad> tokens: 4096 num_tokens=17 loss_per_token: 2.31 token: 12 tokens/s',
    'Traceback: File "/opt/train.py", line 3, in torch.nn.functional, misc/socket.cc:47 libnccl.so.2.18 c10d::add',
    'PWD=/workspace TOKENIZERS_PARALLELISM=false HF_TOKEN= API_KEY=$KEY password=*** access_key=<none>',
    '3: eth0@if12: <BROADCAST,UP> mtu 1500 [PG ID 1 PG GUID 3(tp) Rank 0] host: error [prterun@1,0]<stdout>:',
    '[0] NCCL INFO comm 0x55d5 rank 0 nranks 2 busId 101c0 commId 0x1b2c3d4e5f607182 - Init START',
    'https://github.com/NVIDIA/nccl/issues/451 https://pytorch.org/docs localhost:29500 host=localhost 127.0.0.1',
    'serial8250: ttyS0 at I/O 0x3f8; Serial bus controller; user: error; a::b::c at::native::add 10:20:30',
  ])('is no name: %s', (text) => {
    expect(new Anonymiser([]).apply(text)).toBe(text);
  });

  it('is remembered for other lines and files, and hosts keep their domain', () => {
    const anonymiser = new Anonymiser(['n7']);
    anonymiser.learn('export TOKEN=tr0ub4dor user=alice MASTER_ADDR=n7.acme.corp HOST=z9.acme.corp');
    const [token, user, host, other] = anonymiser.apply('tr0ub4dor alice n7 z9.acme.corp').split(' ');
    expect([token, user, host]).toEqual(['[secret-1]', 'user1', 'host-1x']);
    expect(anonymiser.apply('n7.acme.corp')).toBe(
      `${host}.corp`.replace('corp', other!.replace(/^[^.]*\./, '')),
    );
    for (const { standIn } of anonymiser.replacements) expect(anonymiser.apply(standIn)).toBe(standIn);
  });

  it('gives the same GUID the same stand-in in every form', () => {
    const anonymiser = new Anonymiser([]);
    const forms = ['guid 0x946dae0300123456', 'guid: 946d:ae03:0012:3456', 'x 94:6d:ae:03:00:12:34:56'];
    const digits = forms.map((form) =>
      anonymiser
        .apply(form)
        .replace(/^.* (?:0x)?/, '')
        .replaceAll(':', ''),
    );
    expect(new Set(digits).size).toBe(1);
    expect(anonymiser.replacements.length).toBe(1);
  });
});

describe('lines that may hold a secret', () => {
  it('are those with random words and talk of passwords, not hashes of NCCL or names of kernels', () => {
    const text = [
      'the password is hunter2',
      'x Zk3vQ9pLr7TbX2mWc8NdY5hGf4JsA6uE',
      'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)',
      '_ZN3c106detail14torchCheckFailEPKcS2_jRKSs /usr/lib/python3/dist-packages/torch/lib/libtorch_cuda.so',
      'commId 0x1b2c3d4e5f607182 - Init COMPLETE, PASSWORD=[secret-1]',
    ].join('\n');
    expect(suspiciousLines(text)).toEqual([1, 2]);
  });
});

const bound = (anonymiser: Anonymiser) => ({ apply: (text: string) => anonymiser.apply(text) });
