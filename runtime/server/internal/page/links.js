'use strict'
// Links that repeat an answer. They hold all that it depends on, behind the #, which is not sent to servers.

const encode = value => {
  const bytes = new TextEncoder().encode(JSON.stringify(value))
  return btoa(Array.from(bytes, b => String.fromCharCode(b)).join('')).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

const decode = text => {
  const bytes = Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), c => c.charCodeAt(0))
  return JSON.parse(new TextDecoder().decode(bytes))
}

const linkTo = (turns, i) => {
  const { seed, time, fingerprint, settings, system, model } = turns[i]
  const said = turns.slice(0, i).filter(t => t.content).map(({ role, content }) => ({ role, content }))
  return location.href.split('#')[0] + '#' + encode({ said, seed, time, fingerprint, settings, system, model })
}

// linked is the conversation of a link, whose last turn is the answer to repeat; null if the link is damaged.
const linked = hash => {
  try {
    const { said, ...wanted } = decode(hash.slice(1))
    const c = conversationOf({ turns: [...said, { role: 'assistant', ...wanted }] })
    const last = c.turns.at(-1)
    if (c.turns.length < 2 || c.turns.length !== said.length + 1 || !last.seed) return null
    last.content = ''
    c.title = titleOf(c)
    return c
  } catch { return null }
}

const titleOf = c => c.turns.find(t => t.role === 'user')?.content.trim().split('\n')[0].slice(0, 80) || 'Conversation'
