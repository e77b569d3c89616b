// Writes pipelines.json: small tokenizers that use every part of tokenizer.json that this package reads, with the encodings
// and decodings of the Rust library that defines the format.
//
// Needs Node and `npm install @anush008/tokenizers@0.6.0` (the Rust crate tokenizers 0.22.2). Run: node pipelines.mjs
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";
const require = createRequire(process.env.NODE_MODULES ? process.env.NODE_MODULES + "/x.js" : import.meta.url);
const rust = require("@anush008/tokenizers");

const corpus = `the little boat went down the river and the river went down to the sea. the sea is wide and the boat is little.
what did the captain say? "we've been here before," he said; "we'll go where the wind goes." they're going, i'm going, don't wait.
in 1999 and 2024 there were 12345 boats, 100 captains and 7 seas. naïve café über straße привет мир 你好世界 こんにちは`;

// A byte-pair trainer that is good enough for a test: merges the most frequent pair, the smaller one among equals.
function train(words, count) {
  const merges = [], made = [];
  for (let n = 0; n < count; n++) {
    const freq = new Map();
    for (const w of words) for (let i = 0; i + 1 < w.length; i++) {
      const k = w[i] + " " + w[i + 1];
      freq.set(k, (freq.get(k) || 0) + 1);
    }
    const [best] = [...freq].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0] || [];
    if (!best || freq.get(best) < 2) break;
    const [l, r] = best.split(" ");
    merges.push(best);
    made.push(l + r);
    words = words.map((w) => {
      const out = [];
      for (let i = 0; i < w.length; i++) if (i + 1 < w.length && w[i] === l && w[i + 1] === r) { out.push(l + r); i++; } else out.push(w[i]);
      return out;
    });
  }
  return { merges, made };
}

const byteRunes = [];
for (let b = 0, next = 256; b < 256; b++) byteRunes.push(String.fromCodePoint((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174 ? b : next++));
const mapped = (s) => [...Buffer.from(s)].map((b) => byteRunes[b]);
const gpt2 = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;

function vocabOf(tokens) {
  const vocab = {};
  for (const t of tokens) if (!(t in vocab)) vocab[t] = Object.keys(vocab).length;
  return vocab;
}

const bpe = (extra) => ({ type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ignore_merges: false, ...extra });
const bytes = [...Array(256).keys()].map((b) => "<0x" + b.toString(16).toUpperCase().padStart(2, "0") + ">");

const level = train(corpus.match(gpt2).map(mapped), 160);
const byteLevel = bpe({ vocab: vocabOf([...byteRunes].concat(level.made)), merges: level.merges });

const marked = ("▁" + corpus.replaceAll(/\s/g, "▁")).split(/(?=▁)/).map((w) => [...w]);
const spm = train(marked, 160);
const chars = [...new Set([..."▁" + corpus.replaceAll(/\s/g, "")])].filter((c) => c !== "世");
const spmBPE = bpe({ unk_token: "<unk>", fuse_unk: true, byte_fallback: true, vocab: vocabOf(["<unk>", "<s>", "</s>", ...bytes, ...spm.made, ...chars]), merges: spm.merges });
// Some bytes have no token: characters with one are unknown, unless they are tokens themselves, as the tab is (and in Gemma 2).
const someBytes = bytes.filter((b) => !["<0x09>", "<0xE4>", "<0xF0>"].includes(b));
const bytesMissing = bpe({ unk_token: "<unk>", fuse_unk: true, byte_fallback: true, vocab: vocabOf(["<unk>", "<s>", "</s>", ...someBytes, ...spm.made, ...chars, "\t"]), merges: spm.merges });
const plainBPE = bpe({ unk_token: "<unk>", fuse_unk: true, vocab: vocabOf(["<unk>", "<s>", "</s>", ...spm.made, ...chars]), merges: spm.merges });
// Merges that join across words, which forbids dividing a text at its marks.
const crossing = bpe({ unk_token: "<unk>", fuse_unk: false, vocab: vocabOf(["<unk>", "<s>", "</s>", ...spm.made, ...chars, "e▁", "e▁t", "▁▁", "▁▁▁"]), merges: ["▁ ▁", "▁▁ ▁", "e ▁", "e▁ t", ...spm.merges].map((m) => m.split(" ")) });
const pieces = [...new Set([...spm.made, ...chars])];
const scored = pieces.map((p, i) => [p, Math.round((-2 - 0.031 * i - (p.length === 1 ? 4 : 0)) * 1e6) / 1e6]);
const unigram = { type: "Unigram", unk_id: 0, byte_fallback: false, vocab: [["<unk>", 0], ["<s>", 0], ["</s>", 0], ...scored] };
const unigramBytes = { type: "Unigram", unk_id: 0, byte_fallback: true, vocab: [["<unk>", 0], ["<s>", 0], ["</s>", 0], ...bytes.map((b) => [b, -20]), ...scored] };
const unigramMissing = { ...unigramBytes, vocab: unigramBytes.vocab.filter(([t]) => !t.startsWith("<0x") || someBytes.includes(t)) };

const models = { byteLevel, spmBPE, plainBPE, crossing, unigram, unigramBytes, bytesMissing, unigramMissing };

// Parts.
const BL = (use_regex = true, add_prefix_space = false) => ({ type: "ByteLevel", add_prefix_space, trim_offsets: true, use_regex });
const blDecoder = { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true };
const seq = (...pretokenizers) => ({ type: "Sequence", pretokenizers });
const split = (pattern, behavior = "Isolated", invert = false) => ({ type: "Split", pattern, behavior, invert });
const llama3 = { Regex: "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" };
const qwen2 = { Regex: llama3.Regex.replace("{1,3}", "") };
const o200k = { Regex: "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" };
const meta = (prepend_scheme, split) => ({ type: "Metaspace", replacement: "▁", prepend_scheme, split });
const legacyNormalizer = { type: "Sequence", normalizers: [{ type: "Prepend", prepend: "▁" }, { type: "Replace", pattern: { String: " " }, content: "▁" }] };
const llamaDecoder = { type: "Sequence", decoders: [{ type: "Replace", pattern: { String: "▁" }, content: " " }, { type: "ByteFallback" }, { type: "Fuse" }, { type: "Strip", content: " ", start: 1, stop: 0 }] };
const gemmaDecoder = { type: "Sequence", decoders: [{ type: "Replace", pattern: { String: "▁" }, content: " " }, { type: "ByteFallback" }, { type: "Fuse" }] };
const template = (before, after) => ({
  type: "TemplateProcessing",
  single: [...before.map((t) => ({ SpecialToken: { id: t[0], type_id: 0 } })), { Sequence: { id: "A", type_id: 0 } }, ...after.map((t) => ({ SpecialToken: { id: t[0], type_id: 0 } }))],
  pair: [{ Sequence: { id: "A", type_id: 0 } }, { Sequence: { id: "B", type_id: 1 } }],
  special_tokens: Object.fromEntries([...before, ...after].map(([t, id]) => [t, { id: t, ids: [id], tokens: [t] }])),
});
const added = (id, content, o = {}) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...o });
const spmSpecial = ["<unk>", "<s>", "</s>"].map((t, i) => added(i, t));
const N = Object.keys(byteLevel.vocab).length, M = Object.keys(spmBPE.vocab).length;
const eot = added(N, "<|eot|>");

const pipelines = [];
const add = (name, model, o) => pipelines.push({ name, model, options: o.options || {}, added_tokens: o.added || [], normalizer: o.norm || null, pre_tokenizer: o.pre || null, post_processor: o.post || null, decoder: o.dec || null });

add("gpt2", "byteLevel", { pre: BL(), dec: blDecoder, added: [eot] });
add("gpt2 prefix space", "byteLevel", { pre: BL(true, true), dec: blDecoder, added: [eot], post: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true } });
add("llama3", "byteLevel", { pre: seq(split(llama3), BL(false)), dec: blDecoder, added: [eot, added(N + 1, "<|bot|>")], post: { type: "Sequence", processors: [BL(), template([["<|bot|>", N + 1]], [])] } });
add("llama3 ignore_merges", "byteLevel", { options: { ignore_merges: true }, pre: seq(split(llama3), BL(false)), dec: blDecoder });
add("qwen2 NFC", "byteLevel", { norm: { type: "NFC" }, pre: seq(split(qwen2), BL(false)), dec: blDecoder, added: [eot] });
add("o200k", "byteLevel", { pre: seq(split(o200k), BL(false)), dec: blDecoder });
add("smollm digits", "byteLevel", { pre: seq({ type: "Digits", individual_digits: true }, BL()), dec: blDecoder });
add("digits together", "byteLevel", { pre: seq({ type: "Digits", individual_digits: false }, BL()), dec: blDecoder });
add("falcon", "byteLevel", { pre: seq({ type: "Punctuation", behavior: "Contiguous" }, BL(), { type: "Digits", individual_digits: false }, split({ Regex: "[0-9][0-9][0-9]" })), dec: blDecoder });
for (const b of ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]) {
  add("punctuation " + b, "byteLevel", { pre: seq({ type: "Punctuation", behavior: b }, BL(false)), dec: blDecoder });
  for (const invert of [false, true]) add(`split ${b} ${invert}`, "byteLevel", { pre: seq(split({ Regex: "\\p{N}|[aeiou]" }, b, invert), BL(false)), dec: blDecoder });
  add("split string " + b, "byteLevel", { pre: seq(split({ String: "the" }, b), BL(false)), dec: blDecoder });
}
add("whitespace", "byteLevel", { pre: seq({ type: "Whitespace" }, BL(false)), dec: blDecoder });
add("whitespace split", "byteLevel", { pre: seq({ type: "WhitespaceSplit" }, BL(false)), dec: blDecoder });
for (const [i, o] of [{}, { lstrip: true }, { rstrip: true }, { lstrip: true, rstrip: true }, { single_word: true }, { special: false }, { special: false, normalized: true }, { single_word: true, lstrip: true }].entries())
  add("added " + i, "byteLevel", { norm: { type: "Lowercase" }, pre: BL(), dec: blDecoder, added: [added(N, "<MASK>", o), added(N + 1, "boat", { ...o, special: false }), added(N + 2, "boats"), added(N + 3, "   ", { normalized: true, special: false })] });
add("lowercase strip", "byteLevel", { norm: { type: "Sequence", normalizers: [{ type: "Strip", strip_left: true, strip_right: true }, { type: "Lowercase" }] }, pre: BL(), dec: blDecoder });
for (const f of ["NFD", "NFKC", "NFKD"]) add(f, "byteLevel", { norm: { type: f }, pre: BL(), dec: blDecoder });
add("replace regex", "byteLevel", { norm: { type: "Sequence", normalizers: [{ type: "Replace", pattern: { Regex: "\\s+" }, content: " " }, { type: "Replace", pattern: { String: "''" }, content: "\"" }] }, pre: BL(), dec: blDecoder });
const bos = template([["<s>", 1]], []), bosEos = template([["<s>", 1]], [["</s>", 2]]);
add("llama2", "spmBPE", { norm: legacyNormalizer, dec: llamaDecoder, added: spmSpecial, post: bos });
add("llama2 normalized special", "spmBPE", { norm: legacyNormalizer, dec: llamaDecoder, added: ["<unk>", "<s>", "</s>"].map((t, i) => added(i, t, { normalized: true })), post: bosEos });
for (const scheme of ["always", "first", "never"]) for (const cut of [true, false])
  add(`metaspace ${scheme} ${cut}`, "spmBPE", { pre: meta(scheme, cut), dec: { type: "Metaspace", replacement: "▁", prepend_scheme: scheme, split: cut }, added: spmSpecial, post: bos });
add("gemma", "spmBPE", { norm: { type: "Replace", pattern: { String: " " }, content: "▁" }, pre: split({ String: " " }, "MergedWithPrevious"), dec: gemmaDecoder, added: [...spmSpecial, added(M, "<turn>"), added(M + 1, "▁▁", { special: false }), added(M + 2, "\n\n", { special: false })], post: bos });
add("plain", "plainBPE", { norm: legacyNormalizer, added: spmSpecial });
add("plain without unk", "plainBPE", { options: { unk_token: null }, norm: legacyNormalizer, added: spmSpecial });
add("plain without fuse", "plainBPE", { options: { fuse_unk: false }, norm: legacyNormalizer, dec: llamaDecoder, added: spmSpecial });
add("crossing", "crossing", { norm: legacyNormalizer, dec: llamaDecoder, added: spmSpecial });
add("strip decoder", "plainBPE", { pre: meta("always", true), dec: { type: "Sequence", decoders: [{ type: "Replace", pattern: { String: "▁" }, content: " " }, { type: "Strip", content: "e", start: 1, stop: 0 }, { type: "Fuse" }] }, added: spmSpecial });
add("unigram", "unigram", { pre: meta("always", true), dec: { type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: true }, added: spmSpecial, post: bosEos });
add("unigram whole", "unigram", { norm: legacyNormalizer, dec: llamaDecoder, added: spmSpecial, post: bosEos });
add("unigram bytes", "unigramBytes", { pre: meta("first", false), dec: llamaDecoder, added: spmSpecial });
add("bytes missing", "bytesMissing", { norm: { type: "Replace", pattern: { String: " " }, content: "▁" }, dec: gemmaDecoder, added: spmSpecial });
add("bytes missing without fuse", "bytesMissing", { options: { fuse_unk: false }, norm: legacyNormalizer, dec: llamaDecoder, added: spmSpecial });
add("bytes missing without unk", "bytesMissing", { options: { unk_token: null }, norm: legacyNormalizer, dec: llamaDecoder, added: spmSpecial });
add("bytes missing in one word", "bytesMissing", { dec: gemmaDecoder });
add("unigram bytes missing", "unigramMissing", { pre: meta("first", false), dec: llamaDecoder, added: spmSpecial });
add("unigram bytes missing without added tokens", "unigramMissing", { pre: meta("first", false), dec: gemmaDecoder });
add("template with fields of ByteLevel", "byteLevel", { norm: { type: "NFC" }, pre: seq({ type: "Digits", individual_digits: true }, BL()), dec: blDecoder, added: [eot, added(N + 1, "<|bot|>")], post: { ...BL(true, true), ...template([["<|bot|>", N + 1]], [["<|eot|>", N]]) } });
add("unknown token missing", "byteLevel", { options: { unk_token: "<unk>" }, pre: BL(), dec: blDecoder, added: [eot] });

const texts = ["", " ", "   ", "\n", "\n\n", "a", " a", "  a  ", "the little boat went down the river", "The Little BOAT", "boats boat boatswain theboat boat.", "12345 1999 7", "x² ½ ① ٣٤", "don't WE'VE i'm 'tis they''re",
  "\"we'll go,\" he said; go--go...", "naïve café straße", "e\u0301 ﬁ Å ǅ İ", "привет мир", "你好世界こんにちは", "🙂🦊👨‍👩‍👧‍👦", "tab\tand\r\nline\n\n end ", "a<s>b</s> <unk>", "<|eot|> x <|eot|>", "the<|bot|>", "go <MASK> there", "go<MASK>there", " <MASK> ", "<MASK><MASK>", "<mask> x",
  "   the   sea   ", "e the e  the", "eee", "▁the ▁▁ sea", "a▁b", "<turn>the\n\n\nsea<turn>", "\u0000\u0007", "zzz qqq 世 zzz", "世世世", "<0x41> <0x0A>", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "the the the the the the the the the the the the", "\u00a0nb\u2003sp\u3000", "(a)[b]{c}<d>", "€uro €12", "“quotes” — dash"];

const tmp = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "pipelines-")), "tokenizer.json");
for (const p of pipelines) {
  const file = { version: "1.0", truncation: null, padding: null, added_tokens: p.added_tokens, normalizer: p.normalizer, pre_tokenizer: p.pre_tokenizer, post_processor: p.post_processor, decoder: p.decoder, model: { ...models[p.model], ...p.options } };
  fs.writeFileSync(tmp, JSON.stringify(file));
  const t = rust.Tokenizer.fromFile(tmp);
  p.cases = [];
  for (const text of texts) {
    const ids = Array.from((await t.encode(text, null, { addSpecialTokens: false })).getIds());
    const special = Array.from((await t.encode(text, null, { addSpecialTokens: true })).getIds());
    const shown = ids.length ? await t.decode(ids, false) : "", hidden = special.length ? await t.decode(special, true) : "";
    p.cases.push([text, ids, special, shown, hidden]);
  }
}
// One case per line, so that a change shows.
const line = (x) => JSON.stringify(x);
const body = pipelines.map((p) => {
  const { cases, ...head } = p;
  return line(head).slice(0, -1) + ',"cases":[\n' + cases.map(line).join(",\n") + "]}";
});
fs.writeFileSync("pipelines.json", '{"models":{\n' + Object.entries(models).map(([k, v]) => line(k) + ":" + line(v)).join(",\n") + '},\n"pipelines":[\n' + body.join(",\n") + "]}\n");
console.log(pipelines.length, "pipelines,", texts.length, "texts");
