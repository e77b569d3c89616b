'use strict'
// Inline Markdown (CommonMark with strikethrough and bare links, without HTML) as DOM nodes. Every loop is linear in the text: searches
// back are bounded by mostOpen, and the patterns that go back are sticky and bounded in length.

const mostOpen = 32 // openers of emphasis, and brackets, that may still find their end; it bounds the depth of elements too
const special = /[\\`*_~[\]!<&\n]|\bhttps?:\/\//g
const ofSpace = /\s/
const ofPunctuation = /[\p{P}\p{S}]/u
const bracketed = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/iy
const bare = /https?:\/\/[^\s<>"`]{1,2000}/iy
const lineBreak = /<br *\/?>/iy
const address = /<([^<>\n]{0,2000})>|((?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.){0,500}\)){0,2000})/
const target = new RegExp(`\\(\\s*(?:${address.source})(?:\\s+(?:"[^"]{0,500}"|'[^']{0,500}'))?\\s*\\)`, 'y')
const entity = /&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]{2,8}));/iy
const entities = {
  __proto__: null, amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0',
  copy: '©', hellip: '…', ndash: '–', mdash: '—', times: '×', rarr: '→', le: '≤', ge: '≥',
}

// matchAt is the match of a sticky pattern at a place.
const matchAt = (pattern, text, at) => {
  pattern.lastIndex = at
  return pattern.exec(text)
}

// link is an element for an address that a browser may open, and null for every other one: relative ones would lead into this server,
// and javascript:, data: and the like run or show what a model wrote.
const link = (address, ...children) => {
  let url
  try { url = new URL(address) } catch { return null }
  if (!['http:', 'https:', 'mailto:'].includes(url.protocol)) return null
  return element('a', { href: url.href, rel: 'noopener noreferrer nofollow', target: '_blank', title: url.href }, ...children)
}

const character = code => code === 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? '\ufffd' : String.fromCodePoint(code)

// codeSpans finds the ends of code spans: for each length of a run of backticks the places where there is one, the first one last.
const codeSpans = text => {
  const runs = new Map()
  for (const { 0: { length }, index } of text.matchAll(/`+/g)) {
    if (!runs.has(length)) runs.set(length, [])
    runs.get(length).push(index)
  }
  for (const places of runs.values()) places.reverse()
  return (length, after) => {
    const places = runs.get(length)
    while (places?.length && places.at(-1) < after) places.pop()
    return places?.at(-1)
  }
}

// inline returns a fragment.
const inline = text => {
  const into = document.createDocumentFragment()
  const marks = [], brackets = []
  const endOfCode = codeSpans(text)
  const say = words => { if (words) into.append(words) }
  let at = 0
  // Each returns the place behind what it has read, or 0 if the character is one like others.
  const readers = {
    '\\': () => {
      const next = text[at + 1] ?? ''
      if (next === '\n') return at + 1
      if (!/[!-/:-@[-`{-~]/.test(next)) return 0
      say(next)
      return at + 2
    },
    '`': () => {
      const length = runLength(text, at), end = endOfCode(length, at + length)
      if (end === undefined) return say('`'.repeat(length)), at + length
      let code = text.slice(at + length, end).replaceAll('\n', ' ')
      if (code.startsWith(' ') && code.endsWith(' ') && code.trim()) code = code.slice(1, -1)
      into.append(element('code', {}, code))
      return end + length
    },
    '\n': () => (into.append(element('br')), at + 1),
    '<': () => {
      let m = matchAt(lineBreak, text, at)
      if (m) return into.append(element('br')), at + m[0].length
      m = matchAt(bracketed, text, at)
      const a = m && link(m[1], m[1].replace(/^mailto:/i, ''))
      return a ? (into.append(a), at + m[0].length) : 0
    },
    '&': () => {
      const m = matchAt(entity, text, at)
      const c = m && (m[1] ? character(Number(m[1])) : m[2] ? character(parseInt(m[2], 16)) : entities[m[3]])
      return c ? (say(c), at + m[0].length) : 0
    },
    '!': () => text[at + 1] === '[' ? (open('!['), at + 2) : 0, // a picture is a link to it: nothing is fetched
    '[': () => (open('['), at + 1),
    ']': () => {
      const bracket = brackets.pop(), m = bracket && matchAt(target, text, at + 1)
      const address = m && (m[1] ?? m[2]).replace(/\\([!-/:-@[-`{-~])/g, '$1')
      const a = address && link(address)
      if (!a) return 0
      emphasize(marks.splice(bracket.marks))
      while (bracket.node.nextSibling) a.append(bracket.node.nextSibling)
      if (!a.hasChildNodes()) a.append(address)
      bracket.node.replaceWith(a)
      brackets.length = 0 // there is no link in a link
      return at + 1 + m[0].length
    },
    h: () => {
      let [address] = matchAt(bare, text, at) ?? ['']
      while (/[.,;:!?'*_~]$/.test(address) || (address.endsWith(')') && !address.includes('('))) address = address.slice(0, -1)
      const a = brackets.length ? null : link(address, address)
      return a ? (into.append(a), at + address.length) : 0
    },
  }
  for (const c of '*_~') {
    readers[c] = () => {
      const length = runLength(text, at), node = document.createTextNode(c.repeat(length))
      into.append(node)
      if (length <= 3 && (c !== '~' || length === 2)) marks.push({ c, node, length, ...flanks(text, at, length) })
      return at + length
    }
  }
  const open = words => {
    const node = document.createTextNode(words)
    into.append(node)
    brackets.push({ node, marks: marks.length })
    if (brackets.length > mostOpen) brackets.shift()
  }
  while (at < text.length) {
    special.lastIndex = at
    const found = special.exec(text)
    if (!found) break
    const here = text[found.index].toLowerCase()
    say(here === '\n' ? text.slice(at, found.index).trimEnd() : text.slice(at, found.index))
    at = found.index
    const next = readers[here]()
    if (!next) say(text[at])
    at = next || at + 1
    if (here === '\n') while (text[at] === ' ') at++
  }
  say(text.slice(at))
  emphasize(marks)
  into.normalize()
  return into
}

const runLength = (text, at) => {
  let end = at
  while (text[end] === text[at]) end++
  return end - at
}

// flanks says whether a run may open and close emphasis (CommonMark 6.2).
const flanks = (text, at, length) => {
  const before = text[at - 1] ?? ' ', after = text[at + length] ?? ' '
  const space = [before, after].map(c => ofSpace.test(c)), punctuation = [before, after].map(c => ofPunctuation.test(c))
  const left = !space[1] && (!punctuation[1] || space[0] || punctuation[0])
  const right = !space[0] && (!punctuation[0] || space[1] || punctuation[1])
  if (text[at] !== '_') return { opens: left, closes: right }
  return { opens: left && (!right || punctuation[0]), closes: right && (!left || punctuation[1]) }
}

// emphasize joins runs that open with runs that close.
const emphasize = marks => {
  const opened = []
  for (const closer of marks) {
    closer.whole = closer.length
    while (closer.closes && closer.length > 0) {
      const k = opened.findLastIndex(o => o.c === closer.c &&
        !((o.closes || closer.opens) && (o.whole + closer.whole) % 3 === 0 && (o.whole % 3 || closer.whole % 3)))
      if (k < 0) break
      const opener = opened[k], used = Math.min(2, opener.length, closer.length)
      opened.length = k + 1
      wrap(opener.node, closer.node, closer.c === '~' ? 'del' : used === 2 ? 'strong' : 'em')
      for (const m of [opener, closer]) {
        m.length -= used
        m.node.data = m.c.repeat(m.length)
      }
      if (!opener.length) opened.pop()
    }
    if (closer.opens && closer.length > 0) opened.push(closer)
    if (opened.length > mostOpen) opened.shift()
  }
}

// wrap moves what stands between two nodes into a new element.
const wrap = (begin, end, tag) => {
  const e = element(tag)
  while (begin.nextSibling !== end) e.append(begin.nextSibling)
  begin.after(e)
}
