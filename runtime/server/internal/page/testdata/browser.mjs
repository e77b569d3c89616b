// Chromium for the tests of the page, and what they have in common.
import { mkdtempSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const packages = process.env.PACKAGES
export const packaged = createRequire(join(packages, 'x'))

export const check = (ok, what) => {
  if (!ok) throw new Error(what)
}

export const equal = (got, want, what) => {
  const [is, should] = [got, want].map(v => JSON.stringify(v))
  check(is === should, `${what}: ${is}, want ${should}`)
}

// withBrowser runs what with a browser whose files are in a folder.
export const withBrowser = async (folder, what) => {
  process.env.TMPDIR = mkdtempSync(join(folder, 'chromium-'))
  // Its own configuration looks for the fonts that it brings in /tmp. Without any it shows nothing, or ends.
  process.env.FONTCONFIG_FILE = join(process.env.TMPDIR, 'these.conf')
  writeFileSync(process.env.FONTCONFIG_FILE, `<fontconfig><dir>${process.env.TMPDIR}/fonts</dir></fontconfig>`)
  process.env.AWS_EXECUTION_ENV ??= 'AWS_Lambda_nodejs20.x' // so it brings its own libraries
  const { chromium } = packaged('playwright-core')
  const { default: build } = await import(pathToFileURL(join(packages, 'node_modules/@sparticuz/chromium/build/index.js')))
  // The tests are about what browsers keep apart, and use several tabs.
  const args = build.args.filter(a => !['--single-process', '--disable-web-security', '--no-zygote'].includes(a))
  const browser = await chromium.launch({ executablePath: await build.executablePath(), args, timeout: 0 })
  try {
    await what(browser)
  } finally {
    await browser.close()
  }
}

// newPage is a page that fails the test if a script of it fails, if it asks other servers than its own, or if its policy is broken.
// Nothing is waited for with a limit: the test as a whole has one.
export const newPage = async (context, url) => {
  context.setDefaultTimeout(0)
  const page = await context.newPage()
  const fail = text => {
    console.error(text)
    process.exitCode = 1
  }
  page.on('pageerror', fail)
  page.on('console', m => { if (m.type() === 'error' && !/status of [45]/.test(m.text())) fail(m.text()) })
  page.on('request', r => { if (!/^(data|blob):/.test(r.url()) && !r.url().startsWith(url)) fail(`asks ${r.url()}`) })
  return page
}

// idle waits until no answer is being written.
export const idle = page => page.waitForFunction(() => document.getElementById('send').textContent === 'Send')

export const say = async (page, text) => {
  await page.fill('#words', text)
  await page.press('#words', 'Enter')
  await idle(page)
}

export const answers = page => page.locator('.assistant > .words').allTextContents()

// newChat begins a conversation.
export const newChat = page => page.evaluate(() => document.getElementById('new').click())

// press clicks a button of the last turn of a kind.
export const press = (page, turn, name) => page.locator('.' + turn).last().locator('.buttons').getByText(name, { exact: true }).click()

// asked is the body of the next request for an answer.
export const asked = async (page, act) => {
  const request = page.waitForRequest('**/v1/chat/completions')
  await act()
  return (await request).postData()
}

// settings fills in settings by their names.
export const settings = async (page, values) => {
  await page.click('#set')
  for (const [name, value] of Object.entries(values)) await page.fill(`#settings [name=${name}]`, value)
  await page.click('#settings .main')
}

// ready waits until the page knows the models.
export const ready = page => page.waitForFunction(() => document.getElementById('context').textContent !== '')
