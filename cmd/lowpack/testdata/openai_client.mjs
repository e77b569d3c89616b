// What the openai package of npm makes of a server. Arguments: base URL, key.
import { createRequire } from 'node:module';

const require = createRequire(process.env.PACKAGES + '/');
const OpenAI = require('openai');
const [url, key] = process.argv.slice(2);
const client = new OpenAI({ baseURL: url + '/v1', apiKey: key, maxRetries: 0 });

function check(ok, what) {
  if (!ok) {
    console.error(what);
    process.exit(1);
  }
}

async function refused(kind, call, param) {
  const e = await call().then(() => null, (e) => e);
  check(e instanceof kind && (param === undefined || e.param === param), `${kind.name} expected, got ${e}`);
  check(e.requestID, 'a request id');
}

const models = [];
for await (const m of client.models.list()) models.push(m.id);
const model = models[0];
const ask = { model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 12, temperature: 1.2, seed: 5, logprobs: true, top_logprobs: 2 };
const [a, b] = [await client.chat.completions.create(ask), await client.chat.completions.create(ask)];
check(JSON.stringify(a.choices) === JSON.stringify(b.choices) && a.system_fingerprint === b.system_fingerprint, 'two answers to one request differ');

let text = '';
let usage;
for await (const chunk of await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } })) {
  usage = chunk.usage ?? usage;
  text += chunk.choices.map((c) => c.delta.content ?? '').join('');
}
check(text === a.choices[0].message.content && usage.total_tokens === a.usage.total_tokens, `stream ${text}`);

for await (const chunk of await client.chat.completions.create({ ...ask, stream: true })) { // closes the connection
  check(chunk.choices.length === 1, 'a chunk');
  break;
}
const schema = { type: 'object', properties: { left: { type: 'boolean' } }, required: ['left'], additionalProperties: false };
const parsed = await client.chat.completions.parse({ ...ask, logprobs: false, top_logprobs: undefined, max_tokens: 60, temperature: 0, response_format: { type: 'json_schema', json_schema: { name: 'side', strict: true, schema } } });
check(typeof JSON.parse(parsed.choices[0].message.content).left === 'boolean', 'parse');

const r = await client.responses.create({ model, input: 'Hello', max_output_tokens: 12, temperature: 1.2, seed: 5 });
check(r.output_text === a.choices[0].message.content && r.incomplete_details.reason === 'max_output_tokens', `response ${r.output_text}`);
const kinds = [];
for await (const event of await client.responses.create({ model, input: 'Hello', max_output_tokens: 12, stream: true })) kinds.push(event.type);
check(kinds[0] === 'response.created' && kinds.at(-1) === 'response.incomplete', `events ${kinds}`);
const c = await client.completions.create({ model, prompt: ['The river', 'A clock'], max_tokens: 3, n: 2, echo: true, logprobs: 1 });
check(c.choices.length === 4 && c.choices[3].text.startsWith('A clock'), 'completions');

await refused(OpenAI.BadRequestError, () => client.chat.completions.create({ ...ask, temperature: 3 }), 'temperature');
await refused(OpenAI.NotFoundError, () => client.chat.completions.create({ ...ask, model: 'other' }));
await refused(OpenAI.BadRequestError, () => client.embeddings.create({ model, input: 'a' }));
await refused(OpenAI.AuthenticationError, () => new OpenAI({ baseURL: url + '/v1', apiKey: 'wrong', maxRetries: 0 }).models.list());
console.log('done');
