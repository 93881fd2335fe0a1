// Documents of a made-up run: what steps and modules cost, who is behind. For work on the page only.

const noise = (i, s) => { const v = Math.sin(i * 12.9898 + s * 78.233) * 43758.5453; return v - Math.floor(v); };

export function madeDiagnosis(hasVerdicts, ranks, step, isHostile) {
  const phases = { data: 0.021, transfer: 0.0042, forward: 0.061, backward: 0.083, optimizer: 0.014, rest: 0.0031, collective: 0.07 };
  const base = { phase: null, module: null, since_step: null, since_time: null, until_step: null, active: true, pattern: "chronic", own_seconds: null, peer_seconds: null, gain_seconds: null, steps: 50 };
  const slow = ranks - 2;
  const verdicts = !hasVerdicts ? [] : [
    { ...base, id: 3, kind: "data starvation", text: isHostile ? "<img src=x onerror=alert(1)> \u202e waits" : `rank ${slow} waits 101 ms a step for its data loader, its peers 21 ms, since step 1 012.`, path: `root/gpu-0${Math.floor(slow / 4) + 1}/rank${slow}`, rank: slow, phase: "data", since_step: 1012, own_seconds: 0.101, peer_seconds: 0.021, gain_seconds: 0.08 },
    { ...base, id: 4, kind: "straggler", text: "rank 2 computes longer: forward 84 ms, its peers 61 ms.", path: "root/gpu-01/rank2", rank: 2, phase: "forward", module: "transformer.h.7.mlp.c_fc", pattern: "recurring", since_step: 1150, own_seconds: 0.084, peer_seconds: 0.061, gain_seconds: 0.011 },
    { ...base, id: 1, kind: "slow step", text: "A step of 3.2 s on all ranks at step 700: rest 2.9 s, as after every 350 steps.", path: "root", active: false, pattern: "recurring", since_step: 350, until_step: 701, own_seconds: 3.2, peer_seconds: 0.25 },
  ];
  return {
    steps: 50, step_seconds: 0.2563, bound: hasVerdicts ? "communication" : "compute",
    bound_text: hasVerdicts ? "Ranks wait 70 ms of 256 ms a step for the slowest of them." : "75 % of a step is forward and backward; waiting for peers takes 2 %.",
    phases, gain_ratio: hasVerdicts ? 0.312 : 0.004, verdicts,
    balance: hasVerdicts ? Array.from({ length: ranks }, (_, rank) => ({ rank, share: 1 / ranks, suggested: (rank === slow ? 0.72 : 1.04) / ranks })) : [],
  };
}

export function madeHeat(ranks, step, startedAt, timeOf) {
  const columns = Math.min(Math.floor(65536 / ranks), step, 600);
  const steps = Array.from({ length: columns }, (_, i) => Math.round(((i + 1) * step) / columns));
  const cell = (r, i, base) => base * (0.97 + 0.06 * noise(r, i)) + (i % 97 === 60 ? 0.2 : 0);
  const rows = (of) => Array.from({ length: ranks }, (_, r) => steps.map((s, i) => (r === 5 && s > 1187 ? null : of(r, i, s))));
  const isSlow = (r, s) => r === ranks - 2 && s > step * 0.55;
  return {
    ranks: Array.from({ length: ranks }, (_, r) => r), step: steps, time: steps.map(timeOf),
    own: rows((r, i, s) => cell(r, i, isSlow(r, s) ? 0.262 : 0.181)),
    data: rows((r, i, s) => cell(r + 50, i, isSlow(r, s) ? 0.101 : 0.021)),
    wall: rows((r, i) => cell(0, i, 0.256)),
  };
}

class Maker {
  nodes = [];
  edges = [];
  order = 0;
  module(parent, name, type, parameters, more = {}) {
    const id = this.nodes.length;
    const full = parent === null ? "" : [this.nodes[parent].name, name].filter(Boolean).join(".");
    this.nodes.push({ id, name: full, type, parent, parameters, trainable: parameters, buffers: 0, shared_with: [], calls: 1, order: this.order++, inputs: [], outputs: [], hidden: 0, forward_seconds: null, backward_seconds: null, memory: null, ...more });
    for (let up = parent; up !== null; up = this.nodes[up].parent) { this.nodes[up].parameters += parameters; this.nodes[up].trainable += parameters; }
    return id;
  }
  flow(shape, ...ids) {
    for (let i = 1; i < ids.length; i++) this.edges.push({ source: ids[i - 1], target: ids[i], tensor: { shape, dtype: "float32" }, count: 1 });
  }
  time(step) {
    const isParent = new Set(this.nodes.map((node) => node.parent));
    for (const node of this.nodes) {
      if (isParent.has(node.id)) Object.assign(node, { forward_seconds: 0, backward_seconds: 0, memory: 0 });
      else Object.assign(node, { forward_seconds: 2e-5 + node.parameters * 2e-10 * (0.9 + 0.2 * noise(node.id, step >> 4)), backward_seconds: 3e-5 + node.parameters * 4.2e-10, memory: 4096 * (1 + (node.id % 7) * 300) });
    }
    for (const node of [...this.nodes].reverse()) {
      if (node.parent === null) continue;
      for (const key of ["forward_seconds", "backward_seconds", "memory"]) if (isParent.has(node.parent)) this.nodes[node.parent][key] += node[key];
    }
  }
}

function gpt(made, blocks) {
  const shape = [8, 1024, 768];
  const root = made.module(null, "", "GPT", 0);
  const body = made.module(root, "transformer", "ModuleDict", 0);
  const wte = made.module(body, "wte", "Embedding", 38597376, { inputs: [{ shape: [8, 1024], dtype: "int64" }], outputs: [{ shape, dtype: "float32" }] });
  const wpe = made.module(body, "wpe", "Embedding", 786432);
  const drop = made.module(body, "drop", "Dropout", 0);
  made.flow(shape, wte, drop);
  made.flow([1024, 768], wpe, drop);
  const h = made.module(body, "h", "ModuleList", 0, { calls: null });
  let last = drop;
  for (let i = 0; i < blocks; i++) {
    const block = made.module(h, String(i), "Block", 0, { inputs: [{ shape, dtype: "float32" }], outputs: [{ shape, dtype: "float32" }] });
    const ln1 = made.module(block, "ln_1", "LayerNorm", 1536);
    const attn = made.module(block, "attn", "CausalSelfAttention", 0);
    const qkv = made.module(attn, "c_attn", "Linear", 1771776), drop1 = made.module(attn, "attn_dropout", "Dropout", 0), proj = made.module(attn, "c_proj", "Linear", 590592), drop2 = made.module(attn, "resid_dropout", "Dropout", 0);
    const ln2 = made.module(block, "ln_2", "LayerNorm", 1536);
    const mlp = made.module(block, "mlp", "MLP", 0);
    const fc = made.module(mlp, "c_fc", "Linear", 2362368), act = made.module(mlp, "gelu", "GELU", 0), out = made.module(mlp, "c_proj", "Linear", 2360064), drop3 = made.module(mlp, "dropout", "Dropout", 0);
    made.flow(shape, last, ln1, qkv, drop1, proj, drop2, ln2, fc, act, out, drop3);
    made.flow(shape, last, ln2);
    last = drop3;
  }
  const norm = made.module(body, "ln_f", "LayerNorm", 1536), head = made.module(root, "lm_head", "Linear", 0, { shared_with: [wte], outputs: [{ shape: [8, 1024, 50304], dtype: "float32" }] });
  made.nodes[wte].shared_with = [head];
  made.flow(shape, last, norm, head);
}

function resnet(made) {
  const root = made.module(null, "", "ResNet", 0);
  const stem = [made.module(root, "conv1", "Conv2d", 9408), made.module(root, "bn1", "BatchNorm2d", 128, { buffers: 129 }), made.module(root, "relu", "ReLU", 0), made.module(root, "maxpool", "MaxPool2d", 0)];
  made.flow([32, 64, 112, 112], ...stem);
  let last = stem[3];
  [64, 128, 256, 512].forEach((width, l) => {
    const layer = made.module(root, `layer${l + 1}`, "Sequential", 0);
    for (let b = 0; b < 2; b++) {
      const block = made.module(layer, String(b), "BasicBlock", 0);
      const inside = [made.module(block, "conv1", "Conv2d", width * width * 9), made.module(block, "bn1", "BatchNorm2d", width * 2), made.module(block, "relu", "ReLU", 0, { calls: 2 }), made.module(block, "conv2", "Conv2d", width * width * 9), made.module(block, "bn2", "BatchNorm2d", width * 2)];
      made.flow([32, width, 56 >> l, 56 >> l], last, ...inside, inside[2]);
      if (l > 0 && b === 0) {
        const down = made.module(block, "downsample", "Sequential", 0);
        made.flow([32, width, 56 >> l, 56 >> l], last, made.module(down, "0", "Conv2d", width * width / 2), made.module(down, "1", "BatchNorm2d", width * 2), inside[2]);
      } else made.flow([32, width, 56 >> l, 56 >> l], last, inside[2]);
      last = inside[2];
    }
  });
  made.flow([32, 512], last, made.module(root, "avgpool", "AdaptiveAvgPool2d", 0), made.module(root, "fc", "Linear", 513000));
}

export function madeGraph(kind, step, isHostile) {
  const made = new Maker();
  if (kind === "resnet") resnet(made);
  else gpt(made, kind === "big" ? 760 : 12);
  const isTree = kind === "tree";
  if (isTree) made.nodes.forEach((node) => Object.assign(node, { calls: null, order: null, inputs: [], outputs: [] }));
  else made.time(step);
  if (isHostile) { made.nodes[2].name = "transformer.<img src=x onerror=alert(1)>\u202egnp"; made.nodes[2].type = "X".repeat(300); }
  const total = made.nodes[0].parameters;
  return {
    label: made.nodes[0].type, hash: "a1b2c3d4e5f6", parameters: { total, trainable: total, frozen: 0, shared: kind === "resnet" ? 0 : 38597376 }, recorded: !isTree,
    note: isTree ? "No forward has been recorded: the first pass raised KeyError in a hook of the model's own." : null,
    nodes: made.nodes, edges: isTree ? [] : made.edges, passes: isTree ? 0 : 40 + step, on_device: false, timed_rank: isTree ? null : 6,
  };
}
