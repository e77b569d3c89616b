'use strict'
// Blocks of Markdown as DOM nodes: paragraphs, headings, quotes, lists, tables, fenced code, rules. Lines are read once per depth.

const deepest = 12 // quotes and lists inside each other; what is deeper is text
const mostColumns = 64
const fence = /^( {0,3})(`{3,}|~{3,})([^`]*)$/
const heading = /^ {0,3}(#{1,6})(?:[ \t]+|$)/
const rule = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/
const quote = /^ {0,3}> ?/
const item = /^( {0,3})([-*+]|(\d{1,9})[.)])(?:( {1,4})(?! )|( +)|$)/
const underline = /^ {0,3}(=+|-+) *$/
const delimiters = /^\|?(?: *:?-+:? *\|)* *:?-+:? *\|?$/

const isBlank = line => line.trim() === ''
const indentOf = line => runLength(line + '$', 0) * (line[0] === ' ')

// interrupts says whether a line ends the paragraph before it.
const interrupts = line => {
  if (heading.test(line) || quote.test(line) || rule.test(line) || fence.test(line)) return true
  const m = item.exec(line)
  return m !== null && line.length > m[0].length && (m[3] === undefined || m[3] === '1')
}

// closes says whether a line ends a fence.
const closes = (line, opening) => {
  const words = line.trim()
  return words.length >= opening.length && indentOf(line) < 4 && runLength(words, 0) === words.length && words[0] === opening[0]
}

// codeBlock is a frame for code. Its text goes into pieces, since a browser lays out again what a piece has when it grows.
const codeBlock = info => {
  const language = info.trim().split(/\s/)[0].slice(0, 40)
  const code = element('code')
  const frame = element('div', { class: 'code' },
    element('div', { class: 'bar' }, element('span', { class: 'language' }, language || 'text'),
      element('button', { type: 'button', class: 'plain copy' }, 'Copy')),
    element('pre', { tabindex: '0' }, code))
  return { frame, code }
}

const piece = 8192 // characters of code that are laid out together; they end with a line

const addCode = (code, text) => {
  for (let at = 0; at < text.length;) {
    let last = code.lastChild
    if (!last || (last.textContent.length >= piece && last.textContent.endsWith('\n'))) {
      last = element('span', {}, document.createTextNode(''))
      code.append(last)
    }
    const end = text.indexOf('\n', Math.max(at, at + piece - last.textContent.length)) + 1 || text.length
    last.firstChild.appendData(text.slice(at, end))
    at = end
  }
}

// blocks returns a fragment for lines.
const blocks = (lines, depth = 0) => {
  const into = document.createDocumentFragment()
  for (let i = 0; i < lines.length;) {
    if (isBlank(lines[i])) i++
    else i = (depth < deepest ? starts : [paragraph]).reduce((end, read) => end || read(lines, i, into, depth), 0)
  }
  return into
}

// Each reads the block that begins with line i and returns the line behind it, or 0 if it is another kind of block.
const codeAt = (lines, i, into) => {
  const m = fence.exec(lines[i])
  if (!m) return 0
  let end = i + 1
  while (end < lines.length && !closes(lines[end], m[2])) end++
  const inside = lines.slice(i + 1, end).map(l => l.slice(Math.min(m[1].length, indentOf(l))))
  const { frame, code } = codeBlock(m[3])
  addCode(code, inside.map(l => l + '\n').join(''))
  into.append(frame)
  return end + 1
}

const headingAt = (lines, i, into) => {
  const m = heading.exec(lines[i])
  if (!m) return 0
  const words = lines[i].slice(m[0].length).trim()
  let end = words.length
  while (words[end - 1] === '#') end--
  into.append(headingOf(m[1].length, end === 0 || words[end - 1] === ' ' ? words.slice(0, end).trim() : words))
  return i + 1
}

// headingOf is two levels deeper than in the text: the page and the answer have headings of their own.
const headingOf = (level, words) => element('h' + Math.min(6, level + 2), { class: 'level' + level }, inline(words))

const ruleAt = (lines, i, into) => rule.test(lines[i]) ? (into.append(element('hr')), i + 1) : 0

const quoteAt = (lines, i, into, depth) => {
  if (!quote.test(lines[i])) return 0
  const inside = []
  let lazy = false
  for (; i < lines.length; i++) {
    if (quote.test(lines[i])) {
      inside.push(lines[i].replace(quote, ''))
      lazy = !isBlank(inside.at(-1)) && !fence.test(inside.at(-1))
    } else if (lazy && !isBlank(lines[i]) && !interrupts(lines[i])) inside.push(lines[i])
    else break
  }
  into.append(element('blockquote', {}, blocks(inside, depth + 1)))
  return i
}

// listAt reads the items of a list. What is indented by two columns more than the marker belongs to the item: models write
// lists in numbered ones so, where CommonMark wants three.
const listAt = (lines, i, into, depth) => {
  const first = item.exec(lines[i])
  if (!first) return 0
  const kind = first[2].at(-1), items = []
  let loose = false, blank = false
  for (; i < lines.length; i++) {
    const line = lines[i], m = item.exec(line), margin = items.at(-1)?.margin ?? 0
    if (isBlank(line)) {
      blank = true
      items.at(-1).lines.push('')
      continue
    }
    const inside = items.length && indentOf(line) >= Math.min(margin, items.at(-1).indent + 2)
    if (inside) {
      const words = line.slice(Math.min(margin, indentOf(line)))
      loose ||= blank && words[0] !== ' ' && !items.at(-1).lines.every(isBlank) // else it is part of an inner list
      items.at(-1).lines.push(words)
    } else if (m && m[2].at(-1) === kind && !rule.test(line)) {
      loose ||= blank
      const width = m[1].length + m[2].length + (m[4]?.length ?? 1)
      items.push({ indent: m[1].length, margin: width, lines: [line.slice(width)] })
    } else if (!blank && !interrupts(line)) items.at(-1).lines.push(line) // goes on with its paragraph
    else break
    blank = false
  }
  const start = first[3] && Number(first[3]) !== 1 ? Number(first[3]) : null
  into.append(element(first[3] ? 'ol' : 'ul', { start }, ...items.map(one => listItem(one.lines, loose, depth))))
  return i
}

const listItem = (lines, loose, depth) => {
  lines[0] = lines[0].replace(/^\[([ xX])\] /, (_, done) => done === ' ' ? '☐ ' : '☑ ')
  const li = element('li', {}, blocks(lines, depth + 1))
  if (!loose) for (const p of [...li.children].filter(e => e.tagName === 'P')) p.replaceWith(...p.childNodes)
  return li
}

// cells splits a row of a table at the bars that no backslash escapes.
const cells = line => {
  const row = line.trim(), list = ['']
  for (let k = row.startsWith('|') ? 1 : 0; k < row.length; k++) {
    if (row[k] === '|') list.push('')
    else if (row[k] === '\\' && row[k + 1] === '|') list.push(list.pop() + row[++k])
    else list.push(list.pop() + row[k])
  }
  if (list.length > 1 && isBlank(list.at(-1))) list.pop()
  return list.map(c => c.trim())
}

const sideOf = d => !d.endsWith(':') ? null : d.startsWith(':') ? 'center' : 'right'

const isTable = (lines, i) => lines[i].includes('|') && delimiters.test((lines[i + 1] ?? '').trim())

const tableAt = (lines, i, into) => {
  if (!isTable(lines, i)) return 0
  const head = cells(lines[i]), sides = cells(lines[i + 1]).map(sideOf)
  if (head.length !== sides.length || head.length > mostColumns) return 0
  const row = (tag, list) => element('tr', {}, ...sides.map((side, k) => element(tag, { class: side }, inline(list[k] ?? ''))))
  const body = element('tbody')
  let end = i + 2
  for (; end < lines.length && !isBlank(lines[end]) && !interrupts(lines[end]); end++) body.append(row('td', cells(lines[end])))
  const table = element('table', {}, element('thead', {}, row('th', head)), body)
  into.append(element('div', { class: 'wide', tabindex: '0', role: 'group', 'aria-label': 'Table' }, table))
  return end
}

const paragraph = (lines, i, into, depth) => {
  let end = i + 1
  const more = () => end < lines.length && !isBlank(lines[end])
  const goesOn = () => depth >= deepest || !(underline.test(lines[end]) || interrupts(lines[end]) || isTable(lines, end))
  while (more() && goesOn()) end++
  const words = lines.slice(i, end).map(l => l.trimStart()).join('\n').trim()
  const m = depth < deepest && more() && underline.exec(lines[end])
  into.append(m ? headingOf(m[1][0] === '=' ? 1 : 2, words) : element('p', {}, inline(words)))
  return m ? end + 1 : end
}

const starts = [codeAt, headingAt, ruleAt, quoteAt, listAt, tableAt, paragraph]
