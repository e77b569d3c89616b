// Asks llama.cpp: llamacpp.mjs FILE SPEC LOGITS, with SPEC {"texts": [...], "ids": [...]}. Prints the tokens of the texts as JSON, and
// writes the logits behind each of the ids to LOGITS, float32, one row per id. One thread, no flash attention, float32 cache.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
const packages = createRequire(process.env.PACKAGES + '/x.js');
const { getLlama, LlamaLogLevel } = await import(pathToFileURL(packages.resolve('node-llama-cpp')).href);
const [file, spec, out] = process.argv.slice(-3), o = JSON.parse(spec), log = [];
const llama = await getLlama({ gpu: false, build: 'never', skipDownload: true, progressLogs: false, maxThreads: 1, logLevel: LlamaLogLevel.debug, logger: (l, m) => log.push(m) });
try {
  const model = await llama.loadModel({ modelPath: file, gpuLayers: 0 });
  const context = await model.createContext({ contextSize: 256, batchSize: 256, threads: 1, sequences: 1, flashAttention: false, experimentalKvCacheKeyType: 'F32', experimentalKvCacheValueType: 'F32' });
  const rows = await context.getSequence().controlledEvaluate(o.ids.map(id => [id, { generateNext: { logits: true, options: { temperature: 0 } } }]));
  const size = rows[0].next.logits.size, all = new Float32Array(size * rows.length);
  rows.forEach((r, i) => { for (const [t, v] of r.next.logits) all[i * size + t] = v; });
  fs.writeFileSync(out, Buffer.from(all.buffer));
  console.log(JSON.stringify({ vocabulary: size, tokens: o.texts.map(t => model.tokenize(t)) }));
} catch (e) {
  console.error(log.slice(-12).join(''), String(e));
  process.exit(1);
}
await llama.dispose();
