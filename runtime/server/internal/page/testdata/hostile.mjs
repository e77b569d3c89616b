// Hostile and enormous answers: nothing of them runs, nothing is asked for, every element is one of Markdown, and the page stays usable.
import { answers, check, equal, idle, newChat, newPage, packaged, ready, say, withBrowser } from './browser.mjs'

const [url, folder] = process.argv.slice(2)

const inert = async page => {
  await page.evaluate(() => {
    window.ran = []
    window.alert = window.confirm = window.prompt = what => window.ran.push(String(what))
    document.addEventListener('securitypolicyviolation', e => window.ran.push(e.violatedDirective))
  })
  await say(page, 'hostile')
  await page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))))
  const found = await page.locator('.assistant > .words').evaluate(words => {
    const elements = [...words.querySelectorAll('*')]
    return {
      tags: [...new Set(elements.map(e => e.localName))].sort(),
      attributes: [...new Set(elements.flatMap(e => e.getAttributeNames()))].sort(),
      schemes: [...new Set(elements.filter(e => e.href).map(e => new URL(e.href).protocol))].sort(),
    }
  })
  const tags = 'a blockquote br button code del div em h3 h4 h5 h6 hr li ol p pre span strong table tbody td th thead tr ul'.split(' ')
  equal(found.tags.filter(t => !tags.includes(t)), [], 'foreign elements')
  const names = 'aria-label class href rel role start tabindex target title type'.split(' ')
  equal(found.attributes.filter(a => !names.includes(a)), [], 'foreign attributes')
  equal(found.schemes.filter(s => !['http:', 'https:', 'mailto:'].includes(s)), [], 'foreign schemes')
  const [text] = await answers(page)
  for (const words of ['<script>', '<img src=x onerror', '<svg onload', '</code></pre><script>']) check(text.includes(words), `${words} is text`)
  for (const a of await page.locator('.assistant > .words a').all()) await a.dispatchEvent('mouseover')
  equal(await page.evaluate(() => window.ran), [], 'what ran, or was kept from it')
}

// The policy would have stopped it: what the page never does does not work. newPage would call the tries faults.
const policy = async browser => {
  const page = await browser.newPage()
  await page.goto(url)
  const worked = await page.evaluate(() => {
    const script = document.createElement('script')
    script.append('window.ranInline = true')
    document.body.append(script)
    try { document.body.innerHTML = '<p>x</p>' } catch { return window.ranInline }
    return 'innerHTML'
  })
  check(!worked, `${worked} worked`)
}

// Patterns that cost quadratic or exponential time where a reader goes back. With 300,000 characters each such a reader would not end.
const patterns = {
  stars: '*a ', openers: '**a *b _c ', closers: 'a** b* c_ ', brackets: '[', images: '![a](', links: '[a](b ', nested: '[a](<b', backticks: '`a ``b ```c ',
  tildes: '~~a ', quotes: '> ', lists: '- ', numbers: '1. ', entities: '&amp;&a', angles: '<http://a ', urls: 'http://a).,.,', escapes: '\\\\*', bars: '|a',
  spaces: ' ', dashes: '-', hashes: '#', equals: '=', underscores: '_a_', tables: '|-', words: 'a', breaks: 'a\n', blank: '\n\n> a', fences: '\n```\n',
  rules: '- - ', tabs: '\t', depth: '\n- a\n  - b\n    - c', cells: '| a |\n|--|\n', emphasis: '*_', code: '\n```\nx = 1;\n', surrogates: '\ud83d\ude00',
}

const enormous = async page => {
  const sizes = await page.evaluate(patterns => Object.entries(patterns).map(([name, pattern]) => {
    const text = pattern.repeat(300000 / pattern.length), into = document.createElement('div')
    document.body.append(into)
    const m = new Markdown(into)
    m.show(text, true)
    let depth = 0
    for (const walk = document.createTreeWalker(into, NodeFilter.SHOW_ELEMENT); walk.nextNode();) {
      let d = 0
      for (let e = walk.currentNode; e !== into; e = e.parentElement) d++
      depth = Math.max(depth, d)
    }
    into.remove()
    return [name, depth]
  }), patterns)
  for (const [name, depth] of sizes) check(depth < 120, `${name} is ${depth} deep`)
}

// A text in small pieces is shown as the whole one is, and every piece costs the same: what is built is counted, not timed.
const pieces = async page => {
  const { same, most, nodes } = await page.evaluate(() => {
    const text = ('# A\n\nSome *words* and `code`.\n\n- a\n- b\n\n```go\nfunc main() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n').repeat(400)
    const whole = document.createElement('div'), grown = document.createElement('div')
    new Markdown(whole).show(text, true)
    const m = new Markdown(grown), make = document.createElement
    let made = 0, most = 0, nodes = 0
    document.createElement = name => { made++; return make.call(document, name) }
    for (let at = 0; at < text.length; at += 7) {
      made = 0
      m.show(text.slice(0, at + 7), at + 7 >= text.length)
      most = Math.max(most, made)
      nodes += made
    }
    delete document.createElement
    return { same: whole.isEqualNode(grown), most, nodes }
  })
  check(same, 'pieces make another text')
  check(most < 60 && nodes < 200000, `${most} elements for a piece, ${nodes} for all`)
}

// What is there is not made again while a text grows: a selection stays.
const steady = async page => {
  const stays = await page.evaluate(() => {
    const into = document.createElement('div'), m = new Markdown(into)
    m.show('Some *words* and more', false)
    const before = [into.querySelector('p'), into.querySelector('em'), into.querySelector('p').firstChild]
    m.show('Some *words* and more of them, and **more**\n\nnext', false)
    return before.every(n => into.contains(n))
  })
  check(stays, 'nodes stay')
}

// markdown-it reads the same in texts as models write them. Its line breaks are ours, and it knows no task lists.
const agree = async page => {
  const ours = await page.evaluate(texts => texts.map(text => {
    const into = document.createElement('div')
    new Markdown(into).show(text, true)
    for (const e of into.querySelectorAll('.bar')) e.remove()
    const plain = node => node.nodeType === Node.TEXT_NODE ? node.data : node.localName === 'br' ? '<br>' : node.localName === 'hr' ? '<hr>'
      : ['div', 'span'].includes(node.localName) ? [...node.childNodes].map(plain).join('')
        : `<${/^level/.test(node.className) ? node.className.replace('level', 'h') : node.localName}>${[...node.childNodes].map(plain).join('')}</${node.localName}>`
    return plain(into)
  }), samples)
  const other = packaged('markdown-it')({ breaks: true, linkify: true })
  const plain = html => html.replace(/<(\w+)[^>]*>/g, (_, tag) => `<${{ s: 'del' }[tag] ?? tag}>`).replaceAll('</s>', '</del>')
    .replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll('&amp;', '&')
  const bare = text => text.replace(/<\/?(?:p|tbody|h\d)>/g, tag => tag.includes('h') ? '<h>' : tag).replace(/>\s+/g, '>').replace(/\s+</g, '<')
  const wrong = samples.flatMap((text, i) => {
    const [got, want] = [bare(ours[i]), bare(plain(other.render(text)))]
    return got === want ? [] : [`${JSON.stringify(text)}\n  is   ${got}\n  want ${want}`]
  })
  check(!wrong.length, wrong.join('\n'))
}

const samples = [
  'Plain *em* **strong** ***both*** _em_ __strong__ snake_case_word 2*3*4 ~~gone~~ `code` ``a ` b``',
  '**bold *nested* text** and *em **nested** text*', '* a\n* b\n\n  c\n* d', '1. a\n2. b\n   - c\n   - d\n\n     e\n3. f', '3) x\n4) y',
  '# One\n## Two ##\n### Three *em*\n#### Four', 'Title\n===\ntext\nSub\n---', '> quote\n> more\nlazy\n\n> > deep', '---\n***\n___', 'a\n---',
  '```js\nlet a = "<b>"\n\n  b\n```\nafter', '~~~\n``` inside\n~~~', '```\nnot closed', '```\nclosed\n```', '- a\n\n  ```py\n  x\n  ```\n- b', 'text\n- list\n- more\n\nend',
  '| a | b |\n|---|:-:|\n| `x` | **y** |\n| 1 \\| 2 | 3 |\n\nend', 'not | a table\nreally', '[t](https://e.org/a_b) <https://e.org> https://e.org/x_y_z.',
  '[a *b* c](https://e.org "title")', '[x](https://e.org/(y))', '\\*not\\* \\`code\\` 1\\. &lt;b&gt; &amp; &#65; &copy;', '5 * 3 * 2 and a * b', '**Note:** text **12**%',
  'a\nb  \nc', '- [link](https://e.org)\n- **b**: c\n  1. d\n  2. e', '* * *', '1986\\. A year', '-not a list\n#not a heading', '*a', '**a*', '[a](', '`a', '![', 'a*"b"*c', '+ a\n+ b\n- c',
]

await withBrowser(folder, async browser => {
  const page = await newPage(await browser.newContext(), url)
  await page.goto(url)
  await ready(page)
  await inert(page)
  await newChat(page)
  await enormous(page)
  await pieces(page)
  await steady(page)
  await agree(page)
  await say(page, 'Hi')
  await idle(page)
  await policy(browser)
})
console.log('done')
