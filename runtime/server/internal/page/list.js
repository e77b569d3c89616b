'use strict'
// The list of conversations beside the current one.

const saveFile = (text, name) => {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }))
  element('a', { href: url, download: name }).click()
  URL.revokeObjectURL(url)
}

const fileName = title => 'lowpack-' + (title.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? ['chat']).join('-').slice(0, 40) + '.json'

const showList = () => {
  const list = listed()
  $('conversations').replaceChildren(...list.map(entry))
  $('none').hidden = list.length > 0
  $('export').disabled = !list.length
}

const entry = c => {
  const here = c.id === current.id
  const attributes = { type: 'button', class: 'title', 'aria-current': here && 'true', click: () => open(c.id) }
  const title = element('button', attributes, c.title || 'Conversation')
  const li = element('li', { class: here && 'here' }, title,
    iconButton('edit', 'Rename', () => rename(li, c)),
    iconButton('download', 'Export', () => saveFile(exported([c]), fileName(c.title))),
    iconButton('delete', 'Delete', () => discard(c)))
  return li
}

const rename = (li, c) => {
  const input = element('input', { 'aria-label': 'Title', value: c.title, maxlength: '120' })
  const done = keep => {
    const title = input.value.trim(), latest = c.id === current.id ? current : load(c.id)
    if (keep && title && latest) {
      latest.title = title
      store(latest)
    }
    showList()
    $('conversations').querySelector('[aria-current]')?.focus()
  }
  li.replaceChildren(element('form', {
    submit: e => { e.preventDefault(); done(true) },
    keydown: e => {
      if (e.key !== 'Escape') return
      e.stopPropagation()
      done(false)
    },
  }, input, iconButton('check', 'Save the title', () => done(true))))
  input.focus()
  input.select()
}

const discard = c => {
  if (c.id === current.id) stop()
  const latest = load(c.id) ?? c
  remove(c.id)
  if (c.id === current.id) show(newConversation())
  showList()
  $('words').focus()
  notice(`“${c.title}” is deleted.`, 'Undo', () => {
    if (!write(kept, prefix + latest.id, latest)) notice('The browser has no room for it any more.')
    showList()
  })
}

const bring = async file => {
  try {
    if (file.size > 64 << 20) throw new Error('This file is larger than 64 MiB.')
    const list = imported(await file.text())
    const room = take(list)
    showList()
    notice(room ? `${plural(list.length, 'conversation')} imported.` : 'The browser has no room for all of these conversations.')
  } catch (e) {
    notice(e.message)
  }
}

$('export').onclick = () => saveFile(exported(listed()), 'lowpack-conversations.json')
$('import').onclick = () => $('file').click()
$('file').onchange = () => {
  const [file] = $('file').files
  if (file) bring(file)
  $('file').value = ''
}
