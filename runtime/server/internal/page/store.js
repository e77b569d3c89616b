'use strict'
// What the browser keeps: each conversation under a key of its own, so that a tab only ever writes the one that it shows; settings;
// the look. The API key stays in the tab. Where nothing can be kept, all of it lasts as long as the page.

const memory = () => {
  const kept = new Map()
  return {
    getItem: key => kept.get(key) ?? null,
    setItem: (key, value) => { kept.set(key, value) },
    removeItem: key => { kept.delete(key) },
    keys: () => [...kept.keys()],
  }
}

// browserStorage is null where a browser forbids it.
const browserStorage = name => {
  try {
    const s = window[name]
    s.getItem('lowpack')
    return {
      getItem: key => s.getItem(key),
      setItem: (key, value) => s.setItem(key, value),
      removeItem: key => s.removeItem(key),
      keys: () => Object.keys(s),
    }
  } catch { return null }
}

const kept = browserStorage('localStorage') ?? memory()
const keptByTab = browserStorage('sessionStorage') ?? memory()
const prefix = 'lowpack.chat.'

const newID = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), b => b.toString(16).padStart(2, '0')).join('')

const read = (from, key) => {
  try { return JSON.parse(from.getItem(key)) } catch { return null }
}

// write says whether it could.
const write = (into, key, value) => {
  try {
    into.setItem(key, JSON.stringify(value))
    return true
  } catch { return false }
}

// fields of conversations and turns, with what each must be: what comes from storage and files may be anything.
const isText = v => typeof v === 'string'
const isNumber = v => Number.isFinite(v)
const isSeed = v => isText(v) && /^-?\d{1,19}$/.test(v)
const isSettings = v => v !== null && typeof v === 'object' && !Array.isArray(v)
const conversationFields = { id: v => isText(v) && /^\w{1,64}$/.test(v), title: isText, changed: isNumber, revision: isText }
const turnFields = {
  role: v => v === 'user' || v === 'assistant', content: isText, reasoning: isText, error: isText, reason: isText, model: isText,
  seed: isSeed, time: isText, fingerprint: isText, system: isText, settings: isSettings, altered: v => v === true,
  promptTokens: isNumber, tokens: isNumber, speed: isNumber, first: isNumber,
}

const only = (fields, value) => Object.fromEntries(Object.entries(fields)
  .filter(([name, fits]) => Object.hasOwn(value, name) && fits(value[name])).map(([name]) => [name, value[name]]))

// conversationOf is the conversation in a value, or null.
const conversationOf = value => {
  if (!isSettings(value) || !Array.isArray(value.turns)) return null
  const turns = value.turns.filter(isSettings).map(t => only(turnFields, t)).filter(t => t.role)
  for (const t of turns) {
    t.content ??= ''
    if (t.settings) t.settings = numbersOf(t.settings)
  }
  const c = { title: '', changed: 0, ...only(conversationFields, value), turns }
  return { ...c, id: c.id ?? newID() }
}

const numbers = ['temperature', 'top_p', 'top_k', 'min_p', 'repetition_penalty', 'max_tokens']
const numbersOf = settings => Object.fromEntries(numbers.filter(n => isNumber(settings[n])).map(n => [n, settings[n]]))

const newConversation = () => ({ id: newID(), title: '', changed: 0, turns: [] })

const load = id => conversationOf(read(kept, prefix + id))

// listed are the conversations, the last one first.
const listed = () => kept.keys().filter(k => k.startsWith(prefix)).map(k => load(k.slice(prefix.length))).filter(c => c)
  .sort((a, b) => b.changed - a.changed)

// save writes a conversation and says whether it could. One that another tab has changed meanwhile is left as it is, and this one
// kept beside it.
const save = c => {
  const stored = load(c.id)
  if (stored && stored.revision !== c.revision) {
    c.id = newID()
    c.title = `${c.title} (copy)`
  }
  const before = c.revision
  c.revision = newID()
  c.changed = Date.now()
  if (write(kept, prefix + c.id, c)) return true
  c.revision = before
  return false
}

const remove = id => kept.removeItem(prefix + id)

// exported is a file with conversations; imported reads one, and throws what is wrong with it.
const exported = list => JSON.stringify({ format: 'lowpack conversations', version: 1, conversations: list }, null, 1)

const imported = text => {
  let file
  try { file = JSON.parse(text) } catch { throw new Error('This file is not JSON.') }
  if (file?.format !== 'lowpack conversations' || file.version !== 1 || !Array.isArray(file.conversations)) {
    throw new Error('This file has no conversations that were exported here.')
  }
  const list = file.conversations.map(conversationOf)
  if (list.includes(null)) throw new Error(`Conversation ${list.indexOf(null) + 1} of the file is damaged.`)
  return list
}

// take keeps imported conversations: those that are there already, unchanged, once.
const take = list => list.every(c => {
  const stored = load(c.id)
  if (stored && stored.revision === c.revision) return true
  if (stored) c.id = newID()
  return write(kept, prefix + c.id, c)
})
