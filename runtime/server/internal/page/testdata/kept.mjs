// What the browser keeps: conversations over reloads, in several tabs, exported and imported, without room.
import { readFileSync } from 'node:fs'
import { answers, check, equal, newChat, newPage, ready, say, withBrowser } from './browser.mjs'

const [url, folder] = process.argv.slice(2)

const titles = page => page.locator('#conversations .title').allTextContents()

const reload = async page => {
  await say(page, 'first question')
  await newChat(page)
  await say(page, 'second')
  await page.reload()
  equal(await answers(page), ['You said: second'], 'the conversation after a reload')
  equal(await titles(page), ['second', 'first question'], 'the list')
  await page.getByText('first question').first().click()
  equal(await answers(page), ['You said: first question'], 'another conversation')
  await page.locator('.here').getByLabel('Rename').click()
  await page.keyboard.type('<b>One</b>')
  await page.keyboard.press('Enter')
  equal(await titles(page), ['<b>One</b>', 'second'], 'a new title')
  await page.locator('.here').getByLabel('Rename').click()
  await page.keyboard.type('never')
  await page.keyboard.press('Escape')
  equal((await titles(page))[0], '<b>One</b>', 'Esc leaves the title')
}

// exportTo saves all conversations to a file.
const exportTo = async (page, file) => {
  const download = page.waitForEvent('download')
  await page.click('#export')
  await (await download).saveAs(file)
  return JSON.parse(readFileSync(file))
}

const remove = async page => {
  await page.locator('.here').getByLabel('Delete').click()
  equal([await titles(page), await answers(page)], [['second'], []], 'after a deletion')
  await page.locator('#notice').getByText('Undo').click()
  equal(await titles(page), ['<b>One</b>', 'second'], 'after undo')
}

const files = async (page, other) => {
  const file = folder + '/all.json', all = await exportTo(page, file)
  const said = all.conversations.map(c => c.turns[1].content)
  equal([all.format, all.version, said], ['lowpack conversations', 1, [' You said: first question', ' You said: second']], 'exported')
  await other.setInputFiles('#file', file)
  await other.waitForFunction(() => document.querySelectorAll('#conversations li').length === 2)
  equal(await exportTo(other, folder + '/again.json'), all, 'imported')
  await other.setInputFiles('#file', file)
  await other.waitForFunction(() => document.getElementById('notice').textContent.startsWith('2 conv'))
  equal((await titles(other)).length, 2, 'imported twice')
  for (const [text, message] of [['{', 'not JSON'], ['{}', 'no conversations'],
    ['{"format": "lowpack conversations", "version": 1, "conversations": [{"id": "a"}]}', 'Conversation 1 of the file is damaged']]) {
    await other.setInputFiles('#file', { name: 'x.json', mimeType: 'application/json', buffer: Buffer.from(text) })
    await other.waitForFunction(m => document.getElementById('notice').textContent.includes(m), message)
  }
}

// Two tabs write one conversation: what both wrote is there.
const tabs = async (page, context) => {
  await page.locator('#conversations .title').first().click()
  await page.fill('#words', 'loop')
  await page.press('#words', 'Enter')
  await page.waitForFunction(() => document.querySelector('.assistant:last-child > .words').textContent.includes('again'))
  const second = await newPage(context, url)
  await second.goto(url)
  await second.locator('#conversations .title').first().click()
  await say(second, 'of the second tab')
  await page.click('#send')
  await second.waitForFunction(() => document.querySelectorAll('#conversations li').length === 3)
  const { conversations } = await exportTo(second, folder + '/tabs.json')
  const said = conversations.map(c => c.turns.map(t => t.content).join())
  for (const words of ['You said: of the second tab', 'again and again']) {
    equal(said.filter(s => s.includes(words)).length, 1, `conversations with “${words}”`)
  }
  equal(conversations.filter(c => c.title === '<b>One</b> (copy)').length, 1, 'copies')
  await second.close()
}

const full = async page => {
  await page.evaluate(() => {
    for (let size = 1 << 23, text = ''; size; size >>= 1) {
      try { localStorage.setItem('full', text + 'x'.repeat(size)); text += 'x'.repeat(size) } catch { /* less, then */ }
    }
  })
  await newChat(page)
  await say(page, 'no room')
  check((await page.textContent('#notice')).includes('no room for this conversation'), 'a full storage')
  equal(await answers(page), ['You said: no room'], 'an answer without room')
  await page.evaluate(() => localStorage.removeItem('full'))
  await say(page, 'room again')
  check((await titles(page)).includes('no room'), 'kept when there is room')
}

// Storage that has garbage, or that the browser forbids.
const broken = async browser => {
  for (const prepare of [
    () => {
      const turns = [{ role: 'system', content: 'x' }, { role: 'user', content: 7 }, { role: 'user', content: 'kept' }, null]
      const damaged = {
        'chat.a': '{', 'chat.b': 'null', 'chat.c': '{"turns": 1}', 'chat.d': JSON.stringify({ id: 'd', title: 1, turns }),
        settings: '[1', look: '"constructor"',
      }
      for (const [k, v] of Object.entries(damaged)) localStorage.setItem('lowpack.' + k, v)
    },
    () => Object.defineProperty(window, 'localStorage', { get() { throw new Error('forbidden') } }),
  ]) {
    const context = await browser.newContext()
    await context.addInitScript(prepare)
    const page = await newPage(context, url)
    await page.goto(url)
    await ready(page)
    await say(page, 'Hi')
    equal([await answers(page), (await titles(page))[0]], [['You said: Hi'], 'Hi'], 'with broken storage')
    await context.close()
  }
}

await withBrowser(folder, async browser => {
  const context = await browser.newContext(), page = await newPage(context, url)
  await page.goto(url)
  const other = await newPage(await browser.newContext(), url)
  await other.goto(url)
  await reload(page)
  await remove(page)
  await files(page, other)
  await tabs(page, context)
  await full(page)
  await broken(browser)
})
console.log('done')
