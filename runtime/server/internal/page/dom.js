'use strict'
// What the other scripts build the page with. Nothing is ever parsed as HTML: elements are made one by one, texts are text nodes.

const $ = id => document.getElementById(id)

// element makes an element. An attribute that is null, undefined or false is left out, true has no value, a function is a listener.
const element = (tag, attributes = {}, ...children) => {
  const e = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') e.addEventListener(name, value)
    else if (value !== null && value !== undefined && value !== false) e.setAttribute(name, value === true ? '' : value)
  }
  e.append(...children)
  return e
}

// icon draws one of the symbols at the top of the page.
const icon = name => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', 'svg')
  const use = document.createElementNS('http://www.w3.org/2000/svg', 'use')
  use.setAttribute('href', '#i-' + name)
  e.setAttribute('aria-hidden', 'true')
  e.append(use)
  return e
}

// iconButton is a button without a visible text.
const iconButton = (name, label, click) =>
  element('button', { type: 'button', class: 'icon', 'aria-label': label, title: label, click }, icon(name))

// patch makes the children of an element those of another one, and leaves what is equal as it is: selections, focus and the
// positions of scroll bars survive, and nothing flickers. It empties the other one.
const patch = (live, fresh) => {
  let old = live.firstChild
  for (let next = fresh.firstChild, following; next; next = following) {
    following = next.nextSibling
    if (!old) {
      live.append(next)
      continue
    }
    const after = old.nextSibling
    if (next.nodeType === Node.TEXT_NODE && old.nodeType === Node.TEXT_NODE) {
      if (!next.data.startsWith(old.data)) old.data = next.data
      else if (next.data !== old.data) old.appendData(next.data.slice(old.data.length))
    } else if (next.nodeType === Node.ELEMENT_NODE && old.cloneNode(false).isEqualNode(next.cloneNode(false))) patch(old, next)
    else old.replaceWith(next)
    old = after
  }
  while (old) {
    const after = old.nextSibling
    old.remove()
    old = after
  }
}

// copyText puts a text into the clipboard. Pages that did not come from this machine may not use the modern way.
const copyText = async text => {
  try {
    await navigator.clipboard.writeText(text)
  } catch {
    const area = element('textarea', { class: 'unseen' })
    area.value = text
    const focused = document.activeElement
    document.body.append(area)
    area.select()
    document.execCommand('copy')
    area.remove()
    focused?.focus()
  }
}

// announce tells those who hear the page, once for an event and never for each token.
const announce = text => { $('announcer').textContent = text }

// notice shows a message below the header until it is closed or another one comes, with something to do about it at most.
const notice = (text, action, act) => {
  const close = () => { $('notice').replaceChildren() }
  $('notice').replaceChildren(element('span', {}, text))
  if (action) $('notice').append(element('button', { type: 'button', class: 'plain', click: () => { close(); act() } }, action))
  $('notice').append(iconButton('close', 'Close this message', close))
}

const plural = (n, noun) => `${n} ${noun}${n === 1 ? '' : 's'}`
