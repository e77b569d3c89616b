// The page of a real server in a browser. Arguments: its URL, its API key, a folder for files.
import {
  answers, asked, check, equal, idle, newChat, newPage, press, say, settings, withBrowser,
} from '../../../runtime/server/internal/page/testdata/browser.mjs'

const [url, key, folder] = process.argv.slice(2)
const chat = '**/v1/chat/completions'

// Without the key it says so; with it there is a conversation.
const unlock = async page => {
  await page.waitForFunction(() => document.getElementById('notice').textContent.includes('API key'))
  await say(page, 'Hello')
  check((await page.textContent('.error')).includes('API key'), 'an error is shown')
  await newChat(page)
  await settings(page, { key, temperature: '1.1', max_tokens: '24', seed: '7', system: 'Be brief – “really”.' })
  await page.waitForFunction(() => document.getElementById('context').textContent === 'context 32768')
  await say(page, 'Once upon a time\nthere was a <b>river</b> & 你好')
  check((await page.textContent('.user > .words')).includes('<b>river</b>'), 'what a user writes is text')
  check((await answers(page))[0].length > 0, 'an answer')
  check(/^\d+ prompt tokens, \d+ tokens, [\d.]+ tokens\/s, first after [\d.]+ s$/.test(await page.textContent('.speed')), await page.textContent('.speed'))
  await say(page, 'And then?')
  equal((await answers(page)).length, 2, 'answers')
}

// The link repeats an answer, whatever the settings are, and leaves these alone. The key is in no link and not in what stays.
const repeat = async page => {
  const [first] = await answers(page), seed = await page.locator('.seed').first().textContent()
  const link = await page.locator('.assistant .link').first().evaluate(a => a.href)
  check(!atob(link.split('#')[1].replaceAll('-', '+').replaceAll('_', '/')).includes(key), 'the key is not part of a link')
  check(!(await page.evaluate(() => JSON.stringify({ ...localStorage }))).includes(key), 'the key does not outlive the tab')
  await newChat(page)
  await settings(page, { temperature: '0', system: '' })
  await page.goto(link)
  await press(page, 'assistant', 'Repeat this answer')
  await idle(page)
  equal([await answers(page), await page.locator('.error').count(), await page.textContent('.seed')], [[first], 0, seed], 'repeated')
  equal(await page.inputValue('[name=temperature]'), '0', 'settings')
  await page.goto(url + '/#bm9uc2Vuc2U')
  await page.waitForFunction(() => document.getElementById('notice').textContent.includes('incomplete'))
}

// The time that a prompt tells is part of the link, and of the request that repeats the answer; another model is noticed.
const times = async page => {
  const told = '2024-02-29T23:59:58Z'
  await page.route(chat, async route => {
    const r = await route.fetch()
    const body = (await r.text()).replaceAll('"system_fingerprint":"', '"system_fingerprint":"x')
    await route.fulfill({ response: r, body, headers: { ...r.headers(), 'x-lowpack-time': told } })
  })
  await newChat(page)
  await say(page, 'Hi')
  const timed = await page.locator('.assistant .link').first().evaluate(a => a.href)
  await page.unroute(chat)
  await page.goto(timed)
  const repeated = page.waitForRequest(chat)
  await press(page, 'assistant', 'Repeat this answer')
  equal((await repeated).headers()['x-lowpack-time'], told, 'the time of the repeated answer')
  await idle(page)
  check((await page.textContent('.error')).includes('Another model or version'), 'another fingerprint')
}

// An answer without end: when it is stopped, the server computes nothing any more, and answers the next question.
const endless = async page => {
  await settings(page, { max_tokens: '' })
  await newChat(page)
  await page.route(chat, route => route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), ignore_eos: true }) }))
  await page.fill('#words', 'Go on')
  await page.press('#words', 'Enter')
  await page.waitForFunction(() => document.querySelector('.assistant > .words').textContent.length > 200)
  await page.click('#send')
  await idle(page)
  equal(await page.textContent('.reason'), 'stopped', 'the reason')
  await page.waitForFunction(async key => {
    const metrics = await (await fetch('metrics', { headers: { Authorization: 'Bearer ' + key } })).text()
    return /vllm:num_requests_running\S* 0\n/.test(metrics) && /lowpack:requests_cancelled_total\S* 1\n/.test(metrics)
  }, key)
  await page.unroute(chat)
  await settings(page, { max_tokens: '8' })
  const body = JSON.parse(await asked(page, () => press(page, 'assistant', 'Regenerate')))
  equal([body.messages.length, body.max_tokens], [1, 8], 'regenerate')
  await idle(page)
  check(await page.locator('.error').count() === 0, 'an answer after one that was stopped')
  // Continue is a field of this server; what comes is appended.
  const [before] = await answers(page)
  await press(page, 'assistant', 'Continue')
  await idle(page)
  equal(await page.locator('.error').count(), 0, 'errors of continue')
  check((await answers(page))[0].length >= before.length, 'continued')
}

await withBrowser(folder, async browser => {
  const page = await newPage(await browser.newContext({ viewport: { width: 1000, height: 700 } }), url)
  await page.goto(url)
  for (const part of [unlock, repeat, times, endless]) await part(page)
})
console.log('done')
