'use strict'
// The conversation that is shown, and the answer that is being written.

let current = newConversation()
let views = [] // of the turns of current
let running = null // {controller}: there is one answer at a time

// store keeps a conversation, and says so where it cannot.
const store = c => {
  if (!c.turns.length) return
  c.title ||= titleOf(c)
  if (!save(c)) notice('The browser has no room for this conversation. Export it, or delete others.')
  showList()
  if (c === current) document.title = `${c.title} – lowpack`
}

// actions are the buttons below turn i: label, symbol, what to do.
const actions = i => {
  const t = current.turns[i], last = i === current.turns.length - 1
  const list = []
  if (t.role === 'user') return [['Copy', 'copy', copyWords(t)], ['Edit', 'edit', () => edit(i)]]
  if (t.content) list.push(['Copy', 'copy', copyWords(t)], ['Edit', 'edit', () => edit(i)])
  if (last && t.seed && !t.content && !t.error && !t.reason) return [['Repeat this answer', 'again', () => repeat(i)]]
  if (last && t.reason === 'key') list.push(['Enter the key', 'set', () => showSettings(field('key'))])
  if (last) list.push([t.error ? 'Try again' : 'Regenerate', 'again', () => regenerate(i)])
  if (last && t.content) list.push(['Continue', 'more', () => more(i)])
  if (t.content && t.seed && !t.altered && t.reason !== 'stopped' && !t.error) list.push(['Link', 'link', linkTo(current.turns, i)])
  return list
}

const copyWords = t => async e => {
  await copyText(t.content)
  confirmCopy(e.currentTarget ?? e.target)
}

// confirmCopy tells for a moment that something was copied.
const confirmCopy = button => {
  const words = button.lastChild
  words.textContent = 'Copied'
  announce('Copied')
  setTimeout(() => { words.textContent = 'Copy' }, 1500)
}

// show makes a conversation the current one.
const show = c => {
  current = c
  $('turns').replaceChildren()
  views = []
  c.turns.forEach((_, i) => add(i))
  document.title = c.title ? `${c.title} – lowpack` : 'lowpack'
  $('empty').hidden = c.turns.length > 0
  bottom(true)
}

const add = i => {
  const view = turnView(current.turns[i], () => running ? [] : actions(i))
  views[i] = view
  $('turns').append(view.root)
  if (current.turns[i] !== running?.turn) view.end()
  return view
}

const open = id => {
  const c = load(id)
  stop()
  drawer(false)
  if (!c) return showList()
  leaveLink()
  show(c)
  showList()
  $('words').focus()
}

const fresh = () => {
  stop()
  drawer(false)
  leaveLink()
  show(newConversation())
  showList()
  $('words').focus()
}

// cut removes the turns from i on.
const cut = i => {
  current.turns.length = i
  for (const view of views.splice(i)) view.root.remove()
}

// bottom scrolls down unless someone has scrolled up.
const bottom = always => {
  const m = $('main')
  if (always || following) m.scrollTop = m.scrollHeight
}
let following = true
$('main').onscroll = () => {
  const m = $('main')
  following = m.scrollHeight - m.scrollTop - m.clientHeight < 80
  $('end').hidden = following
}
$('end').onclick = () => bottom(true)

const setRunning = value => {
  running = value
  $('send').classList.toggle('stop', Boolean(value))
  $('send').replaceChildren(icon(value ? 'stop' : 'send'), value ? 'Stop' : 'Send')
  $('turns').setAttribute('aria-busy', Boolean(value))
}

// answer asks for turn i, which is there. how: settings, system, seed, model, time; goOn: the turn has its beginning.
const answer = async (i, how, goOn) => {
  const c = current, t = c.turns[i], before = t.content, controller = new AbortController()
  for (const name of ['error', 'reason', 'seed', 'time', 'tokens', 'promptTokens', 'speed', 'first', 'fingerprint']) delete t[name]
  Object.assign(t, { settings: how.settings, system: how.system, model: how.model })
  const messages = c.turns.slice(0, goOn ? i + 1 : i).filter(said => said.content).map(({ role, content }) => ({ role, content }))
  if (how.system) messages.unshift({ role: 'system', content: how.system })
  const request = { ...how.settings, model: how.model, seed: how.seed, messages, ...(goOn && { continue_final_message: true }) }
  setRunning({ controller, turn: t })
  views.forEach(v => v.root.querySelector('.buttons')?.remove())
  const view = views[i] ?? add(i)
  view.grow(false)
  bottom(true)
  announce('Waiting for the answer.')
  store(c)
  let frame = 0
  await generate({ request, time: how.time, key: key(), signal: controller.signal }, t, () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0
      view.grow(false)
      bottom()
    })
  })
  cancelAnimationFrame(frame)
  if (goOn) t.altered = true // the whole of it has no seed
  if (how.fingerprint && t.fingerprint && how.fingerprint !== t.fingerprint) {
    t.error = 'Another model or version: the answer may differ from that of the link.'
  }
  if (running?.turn === t) setRunning(null)
  if (load(c.id) || c === current) store(c) // but not one that was deleted meanwhile
  if (c !== current) return
  views.forEach((v, k) => { if (c.turns[k] !== running?.turn) v.end() })
  bottom()
  const outcome = t.reason === 'stopped' ? 'Stopped. ' : ''
  announce(t.error ? 'Error: ' + t.error : `${outcome}Answer: ${t.content.slice(before.length).trim().slice(0, 500)}`)
}

const stop = () => {
  running?.controller.abort()
  if (running) setRunning(null)
}

// say adds what the user says, and asks for the answer.
const say = text => {
  current.turns.push({ role: 'user', content: text })
  add(current.turns.length - 1)
  $('empty').hidden = true
  reply()
}

const reply = () => {
  current.turns.push({ role: 'assistant', content: '' })
  answer(current.turns.length - 1, chosen())
}

const regenerate = i => {
  if (!valid()) return
  cut(i)
  $('send').focus()
  reply()
}

const repeat = i => {
  const { settings = {}, system = '', seed, model, time, fingerprint } = current.turns[i]
  leaveLink()
  $('send').focus()
  const offered = [...$('model').options].some(o => o.value === model)
  answer(i, { settings, system, seed, model: offered ? model : chosen().model, time, fingerprint })
}

const more = i => {
  if (!valid()) return
  $('send').focus()
  answer(i, chosen(), true)
}

// edit changes what was said. After a question, the conversation goes on from there; later answers were to another text.
const edit = i => {
  const t = current.turns[i], mine = t.role === 'user'
  editor(views[i], t.content, mine ? 'Send' : 'Save', text => {
    if (mine) {
      if (running || !valid()) return
      cut(i)
      say(text)
      return
    }
    t.content = text
    for (const later of current.turns.slice(i)) if (later.role === 'assistant') later.altered = true
    store(current)
    show(current)
  })
}

$('ask').onsubmit = e => {
  e.preventDefault()
  if (running) return stop()
  const text = $('words').value.trim()
  if (!text || !valid()) return
  while (current.turns.length && !current.turns.at(-1).content) cut(current.turns.length - 1) // an answer that failed
  $('words').value = ''
  size()
  say(text)
}

$('words').onkeydown = e => {
  if (e.key !== 'Enter' || e.shiftKey || e.isComposing) return
  e.preventDefault()
  if (!running) $('ask').requestSubmit()
}

const size = () => {
  $('words').style.height = 'auto'
  $('words').style.height = `${$('words').scrollHeight + 2}px`
}
$('words').oninput = size

// drawer shows the list of conversations, where it has no place beside the current one.
const drawer = shown => {
  $('side').classList.toggle('open', shown)
  $('menu').setAttribute('aria-expanded', shown)
}

$('menu').onclick = () => {
  drawer(!$('side').classList.contains('open'))
  if ($('side').classList.contains('open')) $('new').focus()
}
$('shade').onclick = () => drawer(false)
$('new').onclick = fresh

document.addEventListener('keydown', e => {
  if (e.key !== 'Escape' || $('settings').open) return
  if ($('side').classList.contains('open')) {
    drawer(false)
    $('menu').focus()
  } else stop()
})

$('turns').addEventListener('click', async e => {
  const button = e.target.closest('.copy')
  if (!button) return
  await copyText(button.closest('.code').querySelector('code').textContent)
  confirmCopy(button)
})

// Other tabs change the list, and maybe the conversation that is shown here.
window.addEventListener('storage', e => {
  if (e.key !== null && !e.key.startsWith(prefix)) return
  const latest = load(current.id)
  if (!running && latest && latest.revision !== current.revision && current.turns.length) show(latest)
  showList()
})
window.addEventListener('pagehide', () => { if (running) store(current) })

// leaveLink takes a link out of the address.
const leaveLink = () => history.replaceState(null, '', location.pathname)

const follow = () => {
  if (location.hash.length < 2) return
  stop()
  const c = linked(location.hash)
  if (c) show(c)
  else notice('This link is incomplete.')
}
window.onhashchange = follow

recallSettings()
setRunning(null)
// A reload shows the conversation that the tab had.
show(load(read(keptByTab, 'lowpack.current') ?? '') ?? current)
window.addEventListener('pagehide', () => write(keptByTab, 'lowpack.current', current.id))
follow()
showList()
describe()
