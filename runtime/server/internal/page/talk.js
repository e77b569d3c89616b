'use strict'
// Requests to the server that the page came from.

const headers = key => key ? { Authorization: 'Bearer ' + key } : {}

// Refused is an answer with another status than 200.
class Refused extends Error {
  constructor(status, message) {
    super(message)
    this.status = status
  }
}

const meanings = {
  401: 'The server needs an API key, or the one in the settings is wrong.',
  429: 'The server is busy. Try again in a moment.',
}

const refusal = async r => {
  let message
  try { message = (await r.json()).error.message } catch { message = `The server answered ${r.status}.` }
  return new Refused(r.status, meanings[r.status] ?? message)
}

const ask = async (path, options) => {
  let r
  try {
    r = await fetch(path, options)
  } catch (e) {
    throw e.name === 'AbortError' ? e : new Error('The server does not answer. Is it running?')
  }
  if (!r.ok) throw await refusal(r)
  return r
}

const modelsOf = async key => (await (await ask('v1/models', { headers: headers(key) })).json()).data

// frames yields the objects of a stream of server-sent events.
async function* frames(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return
    const parts = (rest + value).split('\n\n')
    rest = parts.pop()
    for (const part of parts) {
      if (part.startsWith('data: ') && part !== 'data: [DONE]') yield JSON.parse(part.slice(6))
    }
  }
}

// bodyOf is a request. A seed has more digits than a number keeps, so it is written as it is.
const bodyOf = ({ seed, ...fields }) => {
  const body = JSON.stringify({ ...fields, stream: true, stream_options: { include_usage: true } })
  return seed ? body.slice(0, -1) + `,"seed":${seed.replace(/^(-?)0+(?=\d)/, '$1')}}` : body
}

// generate asks for an answer and writes what comes into turn; grown is called for each piece of text. It does not throw.
const generate = async ({ request, time, key, signal }, turn, grown) => {
  const begun = performance.now()
  let first = 0, last = 0, pieces = 0
  try {
    const told = time && { 'X-Lowpack-Time': time }
    const r = await ask('v1/chat/completions', {
      method: 'POST', headers: { 'Content-Type': 'application/json', ...headers(key), ...told }, body: bodyOf(request), signal,
    })
    turn.seed = r.headers.get('X-Lowpack-Seed') ?? undefined
    turn.time = r.headers.get('X-Lowpack-Time') ?? undefined
    for await (const frame of frames(r.body)) {
      if (frame.error) throw new Error(frame.error.message)
      turn.fingerprint = frame.system_fingerprint
      if (frame.usage) [turn.promptTokens, turn.tokens] = [frame.usage.prompt_tokens, frame.usage.completion_tokens]
      const choice = frame.choices?.[0], { content, reasoning_content: reasoning } = choice?.delta ?? {}
      if (content || reasoning) {
        last = performance.now()
        first ||= last
        pieces++
        if (content) turn.content += content
        if (reasoning) turn.reasoning = (turn.reasoning ?? '') + reasoning
        grown()
      }
      turn.reason = choice?.finish_reason ?? turn.reason
    }
    if (!turn.reason) throw new Error('The connection ended before the answer did.')
  } catch (e) {
    if (e.name === 'AbortError') turn.reason = 'stopped'
    else if (e instanceof TypeError) turn.error = 'The connection to the server broke.'
    else turn.error = e.message
    if (e.status === 401) turn.reason = 'key'
  }
  turn.tokens ??= pieces
  if (!last) return
  turn.first = (first - begun) / 1000
  const steady = last - first > 200 // else pieces that came together would count as generated at once
  turn.speed = (steady ? (turn.tokens - 1) / (last - first) : turn.tokens / (last - begun)) * 1000
}
