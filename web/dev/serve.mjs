// For work on the page only: serves the built page over a made-up run.
//   node dev/serve.mjs [--port 7199] [--state running|waiting|finished|failed|empty] [--ranks 8] [--metrics 14] [--hostile]
//                      [--verdicts some|none|unknown] [--graph gpt|resnet|big|tree|none] [--svg]
import { createServer } from "node:http";
import { readFileSync, existsSync } from "node:fs";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { madeDiagnosis, madeGraph, madeHeat } from "./made.mjs";

const option = (name, fallback) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? fallback : (process.argv[at + 1] ?? fallback);
};
const STATIC = fileURLToPath(new URL("../../src/trackside/server/static/", import.meta.url));
const state = option("state", "running");
const RANKS = Number(option("ranks", 8));
const METRICS = Number(option("metrics", 14));
const HOSTILE = process.argv.includes("--hostile");
const VERDICTS = option("verdicts", "some");
const GRAPH = option("graph", "gpt");
const HAS_SVG = process.argv.includes("--svg");
const HOSTS = Math.max(1, Math.ceil(RANKS / 4));
const startedAt = Date.now() / 1000 - 728;
const isOver = state === "finished" || state === "failed";
const hasData = state !== "waiting" && state !== "empty";
let step = hasData ? 1204 : 0;

const NAMES = ["loss", "lr", "grad_norm", "train/accuracy", "train/loss_ce", "train/loss_aux", "val/accuracy", "val/loss", "throughput/tokens", "throughput/mfu", "optim/beta", "optim/scale", "data/length", "data/padding"];
const names = Array.from({ length: METRICS }, (_, i) => NAMES[i] ?? `layers/block${Math.floor(i / 12)}/weight_norm_${i}`);
if (HOSTILE) names.push("<img src=x onerror=alert(1)>", "a\u202egnp.exe", "x".repeat(300), "=cmd()|'a'!A1", "timing(s)/gen");
const noise = (i, s, r = 0) => { const v = Math.sin(i * 12.9898 + s * 78.233 + r * 37.719) * 43758.5453; return v - Math.floor(v); };
const host = (r) => `gpu-${String(Math.floor(r / 4) + 1).padStart(2, "0")}`;
const first = (i) => (i % 7 === 6 ? 400 : 0);
const stride = (i) => (names[i].startsWith("val") ? 50 : 1);

function value(i, s, r = 0) {
  const n = noise(i, s, r) - 0.5;
  if (names[i] === "lr") return 0.001 * Math.min(1, s / 200) * (0.5 + 0.5 * Math.cos((s / 4000) * Math.PI));
  if (/loss/.test(names[i])) return 2.3 * Math.exp(-s / 500) + 0.35 + n * 0.12 + r * 0.006 + i * 0.01;
  if (/acc|mfu/.test(names[i])) return 0.92 - 0.8 * Math.exp(-s / 400) + n * 0.03;
  if (names[i] === "grad_norm") return Math.exp(2 * Math.exp(-s / 600) + n * 1.5 + (s % 331 === 0 ? 2 : 0));
  return 100 + 10 * Math.sin(s / 90 + i) + n * 5;
}
function entry(i, s) {
  if (i === 2 && (s === 700 || s === 900)) return ["NaN", "NaN", "NaN"];
  let low = Infinity, high = -Infinity, sum = 0;
  const ranks = Math.min(RANKS, 8);
  for (let r = 0; r < ranks; r++) { const v = value(i, s, r); low = Math.min(low, v); high = Math.max(high, v); sum += v; }
  return [sum / ranks, low, high];
}
const timeOf = (s) => startedAt + s * 0.6;
const epochOf = (s) => Math.floor(s / 375);

function series(query) {
  const i = names.indexOf(query.get("metric"));
  if (i < 0 || !hasData) return null;
  const x = query.get("x") ?? "step";
  const from = Number(query.get("from") ?? -Infinity), to = Number(query.get("to") ?? Infinity);
  const rank = /rank(\d+)$/.exec(query.get("path"));
  const out = { metric: names[i], path: query.get("path"), x: [], mean: [], min: [], max: [], count: [], total_points: step, reduction: "mean", x_kind: x, decimated: false, non_finite: [] };
  for (let s = first(i); s <= step; s += stride(i)) {
    const at = x === "step" ? s : x === "time" ? timeOf(s) : x === "relative" ? s * 0.6 : epochOf(s);
    if (at < from || at > to || (x === "epoch" && s % 375 !== 0)) continue;
    const v = rank ? [value(i, s, Number(rank[1])), value(i, s, Number(rank[1])), value(i, s, Number(rank[1]))] : entry(i, s);
    out.x.push(at); out.mean.push(v[0]); out.min.push(v[1]); out.max.push(v[2]); out.count.push(rank ? 1 : RANKS);
    if (v[0] === "NaN") out.non_finite.push([at, "NaN"]);
  }
  return out;
}
const rankState = (r) => (state === "finished" ? "finished" : state === "failed" && r === 3 ? "failed" : r === 5 && hasData ? "lost" : state === "failed" ? "finished" : "alive");
function ranks() {
  if (state === "waiting") return [];
  return Array.from({ length: RANKS }, (_, r) => {
    const slow = r === RANKS - 2 ? 1.45 : 1;
    const jitter = noise(1, step >> 3, r) * 0.01;
    const phases = { data: 0.02 + (slow > 1 ? 0.08 : 0) + jitter, transfer: 0.0042, forward: 0.061, backward: 0.083, optimizer: 0.014, ...(HOSTILE ? { "<i>mine</i>": 0.004, evaluate: 0.003 } : {}), rest: 0.0031, collective: slow > 1 ? 0.004 : 0.07 };
    return { rank: r, local_rank: r % 4, host: HOSTILE && r === 1 ? "<b>evil</b>\u202e" : host(r), path: `root/${host(r)}/rank${r}`, label: `${host(r)}:lr=${r % 4} gr=${r}`, generation: 0, state: rankState(r), step: r === 5 ? 1187 : step, epoch: epochOf(step), phase: "backward", age_seconds: r === 5 ? 34 + (step - 1204) * 0.2 : 0.2 + jitter, exit_code: state === "failed" && r === 3 ? 1 : null, signal: null, samples: 48000, throughput: hasData ? 412 / slow : null, batch_share: 1 / RANKS, clock_offset_seconds: 0.0021 * (r - 3), gpu: { name: "NVIDIA H100 80GB HBM3", uuid: `GPU-${r}`, util: 0.86 + noise(2, step, r) * 0.12, memory_used: 61e9 + r * 3e8, memory_total: 85.9e9, temperature: 61 + r, power: 540, util_peak: 1 }, cpu: 0.11, memory: 9e9, step_seconds: 0.25, own_step_seconds: hasData ? 0.178 * slow + jitter : null, phases: hasData ? phases : {}, machine_id: "m", identity_source: "torchrun", pid: 4000 + r, monitored: true, non_finite: 0, dropped_points: 0, restarts: 0, verdict: VERDICTS === "some" && hasData && slow > 1 ? "data starvation" : null, suggested_share: VERDICTS === "some" && hasData ? (slow > 1 ? 0.72 : 1.04) / RANKS : null };
  });
}
function run() {
  const elapsed = isOver ? 728 : Date.now() / 1000 - startedAt;
  const metadata = { config: { model: "resnet18", optimizer: { name: "sgd", lr: 0.001, momentum: 0.9, schedule: { kind: "cosine", warmup: 200 } }, batch_size: 512, data: { name: "cifar10", workers: 4, transforms: ["crop", "flip", "normalize"] }, seed: 42 }, parameters: { total: 11173962, trainable: 11173962, frozen: 0 }, note: HOSTILE ? "</script><script>alert(1)</script>" : "baseline" };
  return { id: "r1", name: HOSTILE ? "run <i>\u202eevil</i> " + "y".repeat(120) : "resnet-cifar", state: state === "empty" ? "running" : state, state_detail: state === "failed" ? "rank 3 on gpu-01 exited with code 1" : null, started_at: startedAt, ended_at: isOver ? startedAt + 728 : null, elapsed_seconds: elapsed, epoch: hasData ? epochOf(step) : null, epochs: 10, step: hasData ? step : null, steps: 3750, eta_seconds: state === "running" ? 272 + (3750 - step) * 0.2 : null, world_size: RANKS, generation: 0, ranks: { alive: isOver ? 0 : state === "waiting" ? 0 : RANKS - 1, late: 0, finished: state === "finished" ? RANKS : 0, failed: state === "failed" ? 1 : 0, lost: hasData ? 1 : 0 }, hosts: state === "waiting" ? [] : Array.from({ length: HOSTS }, (_, h) => `gpu-${String(h + 1).padStart(2, "0")}`), label: "ResNet18", hash: "a1b2c3d4e5f6", hardware: "gpu-01: Xeon", metadata, warnings: hasData && !isOver ? [{ time: Date.now() / 1000 - 40, path: "root/gpu-02/rank5", kind: "rank lost", severity: "critical", text: "gpu-02 rank5 lost: last step 1 187, phase backward, silent 34 s" }, ...(VERDICTS === "some" ? [{ time: Date.now() / 1000 - 20, path: `root/${host(RANKS - 2)}/rank${RANKS - 2}`, kind: "data starvation", severity: "warn", text: `rank ${RANKS - 2} waits 101 ms a step for its data loader, its peers 21 ms, since step 1 012` }] : []), { time: startedAt + 420, path: "root", kind: "non-finite", severity: "warn", text: "grad_norm was NaN on all ranks at step 700" }] : [], version: "0.1.0", throughput: hasData ? 3104 : null, environment: { python: "3.11.9", torch: "2.13.0+cu129", command: ["train.py", "--epochs", "10"], "git commit": "9c1f2e7", launcher: "trackside run" }, directory: "/home/ada/project/runs/2026-11-30T055450Z-resnet-cifar", not_persisted_since: null, clock_offset_max: 0.008412345, diagnosis: hasData && VERDICTS !== "unknown" ? madeDiagnosis(VERDICTS === "some", RANKS, step, HOSTILE) : null, has_graph: hasData && GRAPH !== "none", has_svg: hasData && HAS_SVG, schema_version: 1 };
}
const metrics = () => (hasData ? names.map((name, i) => ({ name, kind: "gauge", unit: name === "lr" ? null : name.includes("tokens") ? "tok/s" : null, reduction: "mean", paths: [], rank_count: RANKS, points: step, first_step: first(i), last_step: step - (step % stride(i)), last: entry(i, step)[0], non_finite: i === 2 ? 2 : 0 })) : []);
const epochs = () => Array.from({ length: hasData ? epochOf(step) : 0 }, (_, e) => ({ epoch: e, seconds: 224.1 + e, metrics: { loss: value(0, (e + 1) * 375), val_acc: value(6, (e + 1) * 375), ...(e > 1 ? { late_f1: 0.5 } : {}) }, samples: 192000, batches: 375, throughput: 3080 + e * 12, ranks: RANKS, complete: true, ended_at: timeOf((e + 1) * 375), cpu: 0.41, memory_used: 31e9, memory_total: 128e9, gpu: 0.91, vram_used: 488e9, vram_total: 687e9 }));
const events = () => (state === "waiting" ? [] : [{ id: 1, time: startedAt + 2, path: "root", kind: "user", severity: "info", text: "resumed: from checkpoint 900", count: 1, step: 0, last_time: null, active: false }, ...(hasData ? [{ id: 2, time: timeOf(700), path: "root", kind: "non-finite", severity: "warn", text: "grad_norm was NaN on all ranks", count: 2, step: 700, last_time: timeOf(900), active: true }, { id: 3, time: startedAt + 700, path: "root/gpu-02/rank5", kind: "rank lost", severity: "critical", text: HOSTILE ? "<img src=x onerror=alert(1)>" : "gpu-02 rank5 lost: last step 1 187, phase backward, silent 34 s", count: 1, step: 1187, last_time: null, active: !isOver }] : [])]);
function sample(t, only) {
  const out = [];
  const none = { cpu: null, memory_used: null, memory_total: null, memory_limit_source: null, network_sent: null, network_received: null, disk_read: null, disk_written: null, disk_used: null, disk_total: null, gpu_util: null, gpu_util_peak: null, vram_used: null, vram_total: null, temperature: null, power: null, torch_allocated: null, torch_reserved: null, gpus: [] };
  for (let h = 0; h < HOSTS; h++) {
    const name = `gpu-${String(h + 1).padStart(2, "0")}`;
    out.push({ ...none, time: t, path: `root/${name}`, host: name, rank: null, cpu: 0.38 + 0.1 * noise(h, t), memory_used: 31e9 + h * 4e9 + 2e9 * noise(3, t >> 4), memory_total: 128e9, memory_limit_source: h ? "host" : "cgroup v2", network_sent: 8e8 * noise(4, t), network_received: 9e8 * noise(5, t), disk_read: 2e8 * noise(6, t), disk_written: 4e6, disk_used: 1.2e12, disk_total: 2e12, gpu_util: 0.9, gpus: Array.from({ length: 4 }, (_, g) => ({ index: g, uuid: `GPU-${h * 4 + g}`, name: "NVIDIA H100 80GB HBM3", util: 0.85 + 0.1 * noise(g, t), util_peak: 1, memory_used: 61e9, memory_peak: 63e9, memory_total: 85.9e9, temperature: 62 + g, power: 540, power_limit: 700, clock_limits: g === 2 ? ["thermal slowdown"] : [], mig: false, ours: h * 4 + g < RANKS })) });
  }
  for (let r = 0; r < Math.min(RANKS, 64); r++) out.push({ ...none, time: t, path: `root/${host(r)}/rank${r}`, host: host(r), rank: r, cpu: 0.1 + 0.02 * noise(r, t), memory_used: 9e9 + r * 1e8, gpu_util: 0.84 + 0.14 * noise(r, t, 2) - (r === RANKS - 2 ? 0.2 : 0), gpu_util_peak: 1, vram_used: 61e9 + r * 3e8, vram_total: 85.9e9, temperature: 61 + r, power: 520 + 40 * noise(r, t) });
  return only ? out : out;
}
const resources = () => (hasData ? Array.from({ length: 180 }, (_, i) => sample(startedAt + i * 4)).flat() : []);

const heat = () => (hasData ? madeHeat(RANKS, step, startedAt, timeOf) : { ranks: [], step: [], time: [], own: [], data: [], wall: [] });
const graph = () => (hasData && GRAPH !== "none" ? madeGraph(GRAPH, step, HOSTILE) : null);

const clients = new Set();
let serial = 0;
const send = (client, name, data) => client.write(`id: b-${++serial}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
if (state === "running") {
  setInterval(() => {
    step += 1;
    const points = {};
    names.forEach((name, i) => {
      if (step < first(i) || step % stride(i)) return;
      const [mean, min, max] = entry(i, step);
      points[name] = { step: [step], epoch: [epochOf(step)], time: [timeOf(step)], mean: [mean], min: [min], max: [max], count: [RANKS], worst: [RANKS - 2] };
    });
    for (const client of clients) send(client, "points", { metrics: points });
  }, 200);
  setInterval(() => { for (const client of clients) { send(client, "run", run()); send(client, "ranks", ranks()); } }, 500);
  setInterval(() => { const records = sample(Date.now() / 1000); for (const client of clients) send(client, "resources", { records }); }, 2000);
}
const SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="420" height="120"><g font-family="sans-serif" font-size="14"><rect x="10" y="40" width="100" height="40" rx="6" fill="#cfe6f7"/><text x="30" y="65">conv1</text><path d="M110 60h40" stroke="#444"/><rect x="150" y="40" width="100" height="40" rx="6" fill="#cfe6f7"/><text x="172" y="65">layer1</text><path d="M250 60h40" stroke="#444"/><rect x="290" y="40" width="100" height="40" rx="6" fill="#fbe3c4"/><text x="325" y="65">fc</text></g></svg>';
const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; font-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css" };
const server = createServer((request, response) => {
  const url = new URL(request.url, "http://x");
  const json = (value, status = 200) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
  const api = { run, ranks, metrics, epochs, events, resources, heat, graph }[url.pathname.replace("/api/v1/", "")];
  if (url.pathname === "/api/v1/stream") {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
    clients.add(response);
    request.on("close", () => clients.delete(response));
    send(response, "hello", { protocol: 1, version: "0", run: "r1", path: url.searchParams.get("path"), server_time: Date.now() / 1000, resumed: false });
    send(response, "run", run());
    return;
  }
  if (url.pathname === "/api/v1/series") { const found = series(url.searchParams); json(found ?? { error: { code: "not_found", message: "no" } }, found ? 200 : 404); return; }
  if (url.pathname === "/graph.svg") { response.writeHead(200, { "content-type": "image/svg+xml" }).end(SVG); return; }
  if (url.pathname === "/healthz") { json({ status: "ok" }); return; }
  if (api) { json(api()); return; }
  const file = join(STATIC, normalize(url.pathname === "/" ? "/index.html" : url.pathname));
  if (!file.startsWith(STATIC) || !existsSync(file)) { response.writeHead(404).end(); return; }
  response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream", "content-security-policy": CSP }).end(readFileSync(file));
});
server.listen(Number(option("port", 7199)), "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`));
