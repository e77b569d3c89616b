// What a browser makes of the page of a server. Arguments: its URL, its API key, a folder for screenshots.
import { mkdtempSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [url, key, folder] = process.argv.slice(2)
const packages = process.env.PACKAGES
process.env.TMPDIR = mkdtempSync(join(folder, 'chromium-'))
// Its own configuration looks for the fonts that it brings in /tmp. Without any it shows nothing, or ends.
process.env.FONTCONFIG_FILE = join(process.env.TMPDIR, 'these.conf')
writeFileSync(process.env.FONTCONFIG_FILE, `<fontconfig><dir>${process.env.TMPDIR}/fonts</dir></fontconfig>`)
process.env.AWS_EXECUTION_ENV ??= 'AWS_Lambda_nodejs20.x' // so it brings its own libraries
const { chromium } = createRequire(join(packages, 'x'))('playwright-core')
const { default: build } = await import(pathToFileURL(join(packages, 'node_modules/@sparticuz/chromium/build/index.js')))
const browser = await chromium.launch({ executablePath: await build.executablePath(), args: build.args })

const check = (ok, what) => {
  if (!ok) throw new Error(what)
}

try {
  const context = await browser.newContext({ viewport: { width: 1000, height: 700 } })
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  const page = await context.newPage()
  page.on('pageerror', e => { console.error(e); process.exitCode = 1 })
  page.on('console', m => { if (m.type() === 'error' && !/401|400/.test(m.text())) { console.error(m.text()); process.exitCode = 1 } })
  page.on('request', r => check(r.url().startsWith(url) || r.url().startsWith('data:'), `asks ${r.url()}`))
  const idle = () => page.waitForFunction(() => document.getElementById('send').textContent === 'Send')
  const say = async text => {
    await page.fill('#words', text)
    await page.press('#words', 'Enter')
    await idle()
  }
  const settings = open => page.evaluate(open => { document.getElementById('settings').open = open }, open)
  const answers = () => page.locator('.assistant .words').allTextContents()

  // Without the key it says so; with it there is a conversation.
  await page.goto(url)
  await page.waitForFunction(() => document.getElementById('model').textContent.includes('API key'))
  await say('Hello')
  check((await page.textContent('.assistant .error')).includes('API key'), 'an error is shown')
  await page.click('#fresh')
  await page.fill('input[name=key]', key)
  await page.fill('input[name=temperature]', '1.1')
  await page.fill('input[name=max_tokens]', '24')
  await page.fill('textarea[name=system]', 'Be brief – “really”.')
  await page.waitForFunction(() => document.getElementById('model').textContent.includes('context 256'))
  await say('Once upon a time\nthere was a <b>river</b> & 你好')
  check((await page.textContent('.user .words')).includes('<b>river</b>'), 'what a user writes is text')
  const [first] = await answers()
  check(first.length > 0, 'an answer')
  check(/^\d+ tokens, [\d.]+ tokens\/s, first after [\d.]+ s$/.test(await page.textContent('.speed')), await page.textContent('.speed'))
  const seed = (await page.textContent('.seed')).slice('seed '.length)
  check(/^\d+$/.test(seed), `seed ${seed}`)
  await say('And then?')
  check((await answers()).length === 2, 'a second answer')
  await settings(true)
  await page.screenshot({ path: join(folder, 'light.png') })
  await settings(false)

  // Copy, reload, and the link that repeats an answer.
  await page.locator('.assistant button', { hasText: 'Copy' }).first().click()
  check(await page.evaluate(() => navigator.clipboard.readText()) === first, 'copy')
  await page.reload()
  check((await answers())[0] === first, 'a conversation stays over a reload')
  const link = await page.locator('.assistant .link').first().evaluate(a => a.href)
  check(!link.includes(key), 'the key is not part of a link')
  await page.click('#fresh')
  check((await answers()).length === 0, 'a new chat')
  await settings(true)
  await page.fill('input[name=temperature]', '0')
  await page.fill('textarea[name=system]', '')
  await page.goto(link)
  await page.getByText('Repeat this answer').click()
  await idle()
  check((await answers())[0] === first && (await page.locator('.error').count()) === 0, `repeated: ${await answers()}\nfirst: ${first}`)
  check((await page.textContent('.seed')) === 'seed ' + seed, 'the seed of the repeated answer')
  await page.goto(url + '/#bm9uc2Vuc2U')
  check((await page.textContent('.error')).includes('incomplete'), 'a broken link')

  // A seed with more digits than a number keeps; wrong settings.
  await page.click('#fresh')
  await page.fill('input[name=seed]', '-9223372036854775808')
  await say('Hi')
  check((await page.textContent('.seed')) === 'seed -9223372036854775808', 'a seed of 64 bits')
  await settings(true)
  await page.fill('input[name=temperature]', '7')
  await page.fill('#words', 'Hi')
  await page.click('#send')
  check((await page.locator('.user').count()) === 1, 'a wrong setting is not sent')
  await page.fill('input[name=temperature]', '1')
  await page.fill('input[name=seed]', '')
  await settings(false)

  // The time that a prompt tells is part of the link, and of the request that repeats the answer.
  const told = '2024-02-29T23:59:58Z', chat = '**/v1/chat/completions'
  await page.route(chat, async route => {
    const r = await route.fetch()
    await route.fulfill({ response: r, headers: { ...r.headers(), 'x-lowpack-time': told } })
  })
  await page.click('#fresh')
  await say('Hi')
  const timed = await page.locator('.assistant .link').first().evaluate(a => a.href)
  await page.unroute(chat)
  await page.click('#fresh')
  await page.goto(timed)
  const repeated = page.waitForRequest(chat)
  await page.getByText('Repeat this answer').click()
  check((await repeated).headers()['x-lowpack-time'] === told, 'the time of the repeated answer')
  await idle()
  await page.click('#fresh')
  await settings(true)
  await page.fill('input[name=seed]', '')
  await settings(false)

  // Stop: the answer is slowed down here, since the model is small.
  await page.click('#fresh')
  await page.fill('#words', '')
  await page.route('**/v1/chat/completions', () => {}) // never answered
  await page.fill('#words', 'Wait')
  await page.press('#words', 'Enter')
  await page.waitForFunction(() => document.getElementById('send').textContent === 'Stop')
  await page.click('#send')
  await idle()
  check((await page.textContent('.reason')) === 'stopped', 'stop')
  await page.unroute('**/v1/chat/completions')
  await say('Go on')
  check((await answers()).length === 1, 'an answer after one that was stopped')

  // Dark, and as narrow as a telephone.
  await page.emulateMedia({ colorScheme: 'dark' })
  await page.setViewportSize({ width: 400, height: 800 })
  await say('A long word: ' + 'x'.repeat(200))
  const colour = await page.evaluate(() => getComputedStyle(document.body).backgroundColor)
  check(colour === 'rgb(22, 24, 28)', `dark: ${colour}`)
  check(await page.evaluate(() => document.documentElement.scrollWidth <= 400 && document.querySelector('main').scrollWidth <= 400), 'no line is wider than 400 pixels')
  await settings(true)
  await page.screenshot({ path: join(folder, 'dark.png') })
  console.log('done')
} finally {
  await browser.close()
}
