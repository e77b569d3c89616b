// What transformers.js makes of a directory: the second argument is a JSON object:
//
// type      of the model, where transformers.js does not know that of config.json
// texts     cut by its tokenizer
// prompts   lists of token ids; each is continued greedily by `new` tokens
// Prints {"texts": [[…]], "tokens": [[…]]}.
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const packages = path.join(process.env.PACKAGES, 'node_modules')
const { AutoConfig, AutoModelForCausalLM, AutoTokenizer, Tensor, env } = await import(
  pathToFileURL(path.join(packages, '@huggingface/transformers/dist/transformers.node.mjs')))
env.allowRemoteModels = false

const [folder, spec] = [process.argv[2], JSON.parse(process.argv[3])]
const tokenizer = await AutoTokenizer.from_pretrained(folder)
const config = await AutoConfig.from_pretrained(folder)
config.model_type = spec.type ?? config.model_type
const model = await AutoModelForCausalLM.from_pretrained(folder, {
  subfolder: '', dtype: 'fp32', use_external_data_format: true, config: new config.constructor(config),
})

const ids = (list) => new Tensor('int64', BigInt64Array.from(list, BigInt), [1, list.length])
const tokens = []
for (const prompt of spec.prompts) {
  // Greedy, whatever generation_config.json says, and beyond the end of the text.
  const out = await model.generate({ inputs: ids(prompt), max_new_tokens: spec.new, do_sample: false, repetition_penalty: 1, eos_token_id: null })
  tokens.push(out.tolist()[0].slice(prompt.length).map(Number))
}
console.log(JSON.stringify({ texts: spec.texts.map((s) => tokenizer.encode(s)), tokens }))
