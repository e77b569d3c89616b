// Which texts belong to grammars, as llama.cpp sees it. Arguments: a GGUF for its tokenizer, a JSON file of [{grammar, texts}],
// where a grammar without texts is the name of one of llama.cpp's own. Prints a list per grammar: its text, and 1 or 0 for
// each text; -1 where the tokenizer has no tokens for it.
import { readFileSync } from 'node:fs';

const packages = process.env.PACKAGES + '/node_modules/node-llama-cpp/';
const { getLlama, LlamaGrammar, LlamaGrammarEvaluationState, LlamaLogLevel } = await import(packages + 'dist/index.js');
const { LlamaSampler } = await import(packages + 'dist/evaluator/LlamaContext/LlamaSampler.js');
const [file, spec] = process.argv.slice(2);
const llama = await getLlama({ build: 'never', gpu: false, logLevel: LlamaLogLevel.disabled });
const model = await llama.loadModel({ modelPath: file });

const answers = [];
for (const { name, grammar, texts } of JSON.parse(readFileSync(spec))) {
  const text = grammar ?? readFileSync(`${packages}llama/grammars/${name}.gbnf`, 'utf8');
  const g = new LlamaGrammar(llama, { grammar: text });
  answers.push({
    grammar: text,
    verdicts: (texts ?? []).map((t) => {
      const state = new LlamaGrammarEvaluationState({ model, grammar: g });
      const tokens = model.tokenize(t, false);
      if (model.detokenize(tokens) !== t) return -1;
      for (const token of tokens) {
        if (!LlamaSampler._canBeNextTokenForGrammarEvaluationState(llama, state, token)) return 0;
        LlamaSampler._acceptTokenOnGrammarEvaluationState(llama, state, token);
      }
      return LlamaSampler._canBeNextTokenForGrammarEvaluationState(llama, state, model.tokens.eos) ? 1 : 0;
    }),
  });
}
console.log(JSON.stringify(answers));
process.exit(0);
