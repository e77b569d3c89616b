// A conversation with the stub of stub_test.go: answers, stop, edit, settings, errors, keys.
import { answers, asked, check, equal, idle, newChat, newPage, press, ready, say, settings, withBrowser } from './browser.mjs'

const [url, folder] = process.argv.slice(2)

// A request for an answer lasts until the first word; then there are its counts, and what assistive technology hears.
const first = async page => {
  await page.evaluate(() => {
    window.heard = []
    new MutationObserver(() => window.heard.push(document.getElementById('announcer').textContent))
      .observe(document.getElementById('announcer'), { childList: true, characterData: true, subtree: true })
  })
  await page.fill('#words', 'wait')
  await page.press('#words', 'Enter')
  await page.waitForSelector('.waiting')
  await page.evaluate(() => fetch('go'))
  await idle(page)
  equal(await page.locator('.waiting').count(), 0, 'spinners after the answer')
  const speed = await page.textContent('.speed')
  check(/^11 prompt tokens, 3 tokens, [\d.]+ tokens\/s, first after [\d.]+ s$/.test(speed), speed)
  equal(await answers(page), ['You said: wait'], 'the answer')
  equal(await page.evaluate(() => window.heard), ['Waiting for the answer.', 'Answer: You said: wait'], 'announced')
  equal(await page.getAttribute('#turns', 'aria-live'), null, 'tokens are not announced')
}

// Stop, with the button and with Esc, ends the request.
const stop = async page => {
  for (const how of [() => page.click('#send'), () => page.keyboard.press('Escape')]) {
    await newChat(page)
    await page.fill('#words', 'loop')
    await page.press('#words', 'Enter')
    await page.waitForFunction(() => document.querySelector('.assistant > .words').textContent.length > 1000)
    await how()
    await idle(page)
    await page.evaluate(() => fetch('idle')) // is answered when no request runs
    equal(await page.textContent('.reason'), 'stopped', 'the reason')
  }
}

// Regenerate asks the same again, continue goes on with the answer, edit goes on from what is edited.
const change = async page => {
  await newChat(page)
  await say(page, 'one')
  await say(page, 'two')
  const messages = async act => JSON.parse(await asked(page, act)).messages.map(m => m.content)
  equal(await messages(() => press(page, 'assistant', 'Regenerate')), ['one', ' You said: one', 'two'], 'regenerate')
  await idle(page)
  equal((await answers(page)).length, 2, 'answers')
  const more = JSON.parse(await asked(page, () => press(page, 'assistant', 'Continue')))
  equal([more.continue_final_message, more.messages.at(-1)], [true, { role: 'assistant', content: ' You said: two' }], 'continue')
  await idle(page)
  check((await answers(page)).at(-1).startsWith('You said: two'), 'the beginning stays')
  check((await answers(page)).at(-1).length > 20, 'it goes on')
  equal(await page.locator('.assistant').last().locator('.link').count(), 0, 'links of an answer in two parts')

  await press(page, 'assistant', 'Edit')
  await page.fill('.edit textarea', '**other**')
  await page.keyboard.press('Control+Enter')
  equal((await answers(page)).at(-1), 'other', 'an edited answer')
  await page.locator('.user').first().hover()
  await page.locator('.user').first().getByText('Edit').click()
  await page.fill('.edit textarea', 'never')
  await page.keyboard.press('Escape')
  equal(await page.locator('.user > .words').first().textContent(), 'one', 'Esc leaves it')
  await page.locator('.user').first().hover()
  await page.locator('.user').first().getByText('Edit').click()
  await page.fill('.edit textarea', 'three')
  equal(await messages(() => page.locator('.edit .main').click()), ['three'], 'edit')
  await idle(page)
  equal(await answers(page), ['You said: three'], 'what comes after an edited question')
}

// Settings are those of the request.
const set = async page => {
  await settings(page, { system: 'Be brief.', max_tokens: '9', temperature: '0.5', top_p: '0.9', seed: '-9223372036854775808' })
  await page.selectOption('#model', 'large')
  await page.waitForFunction(() => document.getElementById('context').textContent === 'context 8192')
  const body = await asked(page, () => say(page, 'Hi'))
  check(body.includes('"seed":-9223372036854775808'), 'a seed of 64 bits')
  const { max_tokens, temperature, top_p, model, messages } = JSON.parse(body)
  equal([max_tokens, temperature, top_p, model, messages[0]], [9, 0.5, 0.9, 'large', { role: 'system', content: 'Be brief.' }], 'settings')
  await page.reload()
  await ready(page)
  equal([await page.inputValue('#model'), await page.inputValue('[name=system]')], ['large', 'Be brief.'], 'settings after a reload')
  await page.click('#set')
  await page.fill('[name=temperature]', '7')
  await page.keyboard.press('Escape')
  await page.fill('#words', 'Hi')
  await page.press('#words', 'Enter')
  check(await page.locator('#settings').evaluate(e => e.open), 'a wrong setting is shown')
  await page.click('#defaults')
  await page.click('#settings .main')
  equal(await page.inputValue('[name=system]'), '', 'defaults')
}

// Reasoning is folded once the answer begins; errors are texts.
const kinds = async page => {
  await newChat(page)
  await say(page, 'think')
  equal(await page.locator('.thought').evaluate(e => [e.open, e.querySelector('em').textContent]), [false, 'thought'], 'reasoning')
  equal(await answers(page), ['You said: think'], 'the answer after reasoning')
  await newChat(page)
  await say(page, 'refused')
  equal(await page.textContent('.error'), 'the prompt has more tokens than the context: <b>9000</b>', 'an error')
  equal(await page.locator('.assistant .buttons').textContent(), 'Try again', 'what to do')
  await say(page, 'broken')
  equal(await answers(page), ['Half of'], 'a broken answer, in the place of the failed one')
  equal(await page.textContent('.error'), 'The connection ended before the answer did.', 'a broken answer')
}

// Markdown becomes elements; code and answers are copied as they are.
const markdown = async page => {
  await newChat(page)
  await say(page, 'markdown')
  const want = {
    h3: 0, '.code': 1, 'ol > li': 3, 'ol ul > li': 2, table: 1, 'td.right': 2, blockquote: 1, strong: 1, em: 1, del: 1, 'li code': 4, a: 2,
  }
  const found = await page.locator('.assistant > .words').evaluate((e, selectors) =>
    Object.fromEntries(selectors.map(s => [s, e.querySelectorAll(s).length])), Object.keys(want))
  equal(found, want, 'Markdown')
  equal(await page.locator('.words h4').textContent(), 'Binary search', 'a heading of level 2')
  equal(await page.locator('.language').textContent(), 'python', 'the language')
  await page.locator('.copy').click()
  const code = await page.evaluate(() => navigator.clipboard.readText())
  check(code.startsWith('def search(values, wanted):\n    low, high') && code.endsWith('belongs\n'), code)
  await press(page, 'assistant', 'Copy')
  check((await page.evaluate(() => navigator.clipboard.readText())).includes('| Method | Comparisons |'), 'the answer is copied as Markdown')
  const a = page.locator('.words a').first()
  equal([await a.getAttribute('rel'), await a.getAttribute('target')], ['noopener noreferrer nofollow', '_blank'], 'a link')
}

// The keyboard reaches everything, and shows where it is.
const keyboard = async page => {
  await newChat(page)
  await page.fill('#words', 'a')
  await page.press('#words', 'Shift+Enter')
  await page.keyboard.type('b')
  await page.press('#words', 'Enter')
  await idle(page)
  equal(await page.locator('.user > .words').textContent(), 'a\nb', 'Shift+Enter begins a line')
  await page.reload()
  await ready(page)
  await page.evaluate(() => document.activeElement.blur())
  const passed = []
  for (let last = ''; last !== 'words';) {
    await page.keyboard.press('Tab')
    last = await page.evaluate(() => {
      const e = document.activeElement
      if (e === document.body) return 'body'
      const at = e.id === 'words' ? e.parentElement : e, style = getComputedStyle(at)
      if (style.outlineStyle === 'none' && style.boxShadow === 'none') return 'not visible: ' + e.outerHTML
      return e.id || e.className || e.getAttribute('aria-label') || e.textContent
    })
    check(!last.startsWith('not visible'), last)
    passed.push(last)
  }
  const order = ['skip', 'new', 'title', 'export', 'import', 'model', 'look', 'set', 'words'].map(n => passed.indexOf(n))
  check(order.every((n, i) => n > (order[i - 1] ?? -1)), `focus order ${passed}`)
}

await withBrowser(folder, async browser => {
  const context = await browser.newContext({ viewport: { width: 1000, height: 700 } })
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  const page = await newPage(context, url)
  await page.goto(url)
  await ready(page)
  for (const part of [first, stop, change, set, kinds, markdown, keyboard]) await part(page)
})
console.log('done')
