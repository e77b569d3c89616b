// How the page looks: on a telephone, in light and dark, without motion; and what axe says of it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { check, equal, idle, newChat, newPage, ready, say, withBrowser } from './browser.mjs'

const [url, folder] = process.argv.slice(2)
const axe = readFileSync(join(process.env.PACKAGES, 'node_modules/axe-core/axe.min.js'), 'utf8')

// contrasts are those of all texts that can be seen, placeholders included, with the backgrounds behind them: below what WCAG wants.
const contrasts = page => page.evaluate(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true })
  const over = (colour, below) => { // as the browser blends them
    canvas.fillStyle = `rgb(${below})`
    canvas.fillRect(0, 0, 1, 1)
    canvas.fillStyle = colour
    canvas.fillRect(0, 0, 1, 1)
    return [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)]
  }
  const luminance = rgb => rgb.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0)
  const background = e => e ? over(getComputedStyle(e).backgroundColor, background(e.parentElement)) : [255, 255, 255]
  const measure = (e, colour, text) => {
    const behind = background(e), [a, b] = [luminance(over(colour, behind)), luminance(behind)].sort((x, y) => y - x)
    return { text: text.slice(0, 30), of: e.id || e.className || e.localName, ratio: (a + 0.05) / (b + 0.05) }
  }
  const found = []
  for (const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walk.nextNode();) {
    const e = walk.currentNode.parentElement
    const seen = e.checkVisibility({ visibilityProperty: true }) && !e.closest('.unseen, script, .waiting, :disabled')
    if (seen && walk.currentNode.data.trim()) found.push(measure(e, getComputedStyle(e).color, walk.currentNode.data))
  }
  for (const e of document.querySelectorAll('[placeholder]')) {
    if (e.checkVisibility()) found.push(measure(e, getComputedStyle(e, '::placeholder').color, e.placeholder))
  }
  return found
})

// judged runs axe, whose own colour rule does not see through everything.
const judged = async (page, what) => {
  const list = await contrasts(page)
  check(list.length > 5, `texts in ${what}`)
  equal(list.filter(c => c.ratio < 4.5), [], `low contrasts in ${what}`)
  const violations = await page.evaluate(async source => {
    if (!window.axe) window.eval(source)
    const result = await window.axe.run(document, { rules: { 'heading-order': { enabled: false } } }) // answers have what models write
    return result.violations.map(v => `${v.id}: ${v.nodes.map(n => n.target + ' ' + n.failureSummary).join('; ')}`)
  }, axe)
  equal(violations, [], `axe on ${what}`)
}

const narrow = async (page, what) => {
  const wide = await page.evaluate(() => [...document.querySelectorAll('html, body, main, footer, header, .turn, dialog[open]')]
    .filter(e => e.scrollWidth > innerWidth || e.getBoundingClientRect().right > innerWidth)
    .map(e => `${e.localName}.${e.className} ${e.scrollWidth}`))
  equal(wide, [], `wider than the screen: ${what}`)
}

// states calls look for each thing that a user sees.
const states = async (page, look) => {
  await look('empty')
  await say(page, 'think')
  await say(page, 'markdown')
  await look('an answer')
  await page.locator('.user').last().hover()
  await page.locator('.user').last().getByText('Edit').click()
  await look('an edited message')
  await page.keyboard.press('Escape')
  await say(page, 'wide')
  await look('wide answers')
  await page.fill('#words', 'wait')
  await page.press('#words', 'Enter')
  await page.waitForSelector('.waiting')
  await look('a request')
  await page.evaluate(() => fetch('go'))
  await idle(page)
  await newChat(page)
  await say(page, 'refused')
  await look('an error')
  await page.evaluate(() => notice('A message that is longer than a telephone is wide, with something to do about it', 'Do it', () => {}))
  await look('a notice')
  await page.click('#set')
  await look('settings')
  await page.keyboard.press('Escape')
}

await withBrowser(folder, async browser => {
  for (const [name, options] of [
    ['light', { viewport: { width: 1280, height: 860 } }],
    ['dark', { viewport: { width: 390, height: 844 }, colorScheme: 'dark', hasTouch: true, reducedMotion: 'reduce' }],
  ]) {
    const context = await browser.newContext({ bypassCSP: true, ...options }) // axe is a script that the policy does not name
    const page = await newPage(context, url)
    await page.goto(url)
    await ready(page)
    const look = async what => {
      await judged(page, `${what}, ${name}`)
      if (name === 'dark') await narrow(page, what)
    }
    await states(page, look)
    if (name === 'dark') {
      equal(await page.evaluate(() => document.getAnimations().length), 0, 'animations')
      await page.click('#menu')
      await look('the list')
      await page.keyboard.press('Escape')
      check(await page.locator('#side').evaluate(e => getComputedStyle(e).visibility) === 'hidden', 'Esc closes the list')
    }
    // The switch overrides what the system has, and stays.
    const scheme = () => page.evaluate(() => getComputedStyle(document.documentElement).colorScheme)
    await page.click('#look')
    equal(await scheme(), 'light', 'the switch')
    await page.click('#look')
    await page.reload()
    equal(await scheme(), 'dark', 'the switch after a reload')
    if (name === 'light') await judged(page, 'dark by the switch')
    await page.click('#look')
    equal(await scheme(), 'light dark', 'as the system')
    await context.close()
  }
})
console.log('done')
