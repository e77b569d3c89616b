'use strict'
// How a turn of the conversation looks: what was said, and below it what to do with it.

const twoDigits = n => n >= 10 ? n.toFixed(1) : n.toFixed(2)

// facts are what is known about an answer.
const facts = t => {
  const list = []
  if (t.tokens) {
    const prompt = t.promptTokens ? `${plural(t.promptTokens, 'prompt token')}, ` : ''
    const speed = t.speed ? `, ${t.speed.toFixed(1)} tokens/s, first after ${twoDigits(t.first)} s` : ''
    list.push(['speed', prompt + plural(t.tokens, 'token') + speed])
  }
  const ends = { __proto__: null, length: 'token limit reached', stopped: 'stopped' }
  if (ends[t.reason]) list.push(['reason', ends[t.reason]])
  if (t.altered) list.push(['altered', 'edited'])
  if (t.seed && t.content) list.push(['seed', 'seed ' + t.seed])
  return list.map(([name, words]) => element('span', { class: name }, words))
}

// turnView shows a turn and grows with it. do: what its buttons do; actions: which of them there are.
const turnView = (turn, actions) => {
  const mine = turn.role === 'user'
  const words = element('div', { class: 'words' }), foot = element('div', { class: 'about' })
  const root = element('article', { class: 'turn ' + turn.role },
    element('h2', { class: 'unseen' }, mine ? 'You' : 'Answer'), words, foot)
  if (mine) words.textContent = turn.content
  const answer = mine ? null : new Markdown(words)
  let thought = null, waiting = null

  const think = ended => {
    if (!thought) {
      const into = element('div', { class: 'words' })
      thought = { frame: element('details', { class: 'thought' }, element('summary', {}, 'Reasoning'), into), text: new Markdown(into) }
      thought.frame.open = !ended
      words.before(thought.frame)
    }
    if (turn.content && !thought.left) { // once: whoever opens it again keeps it open
      thought.left = true
      thought.frame.open = false
    }
    thought.text.show(turn.reasoning, ended || Boolean(turn.content))
  }

  const view = {
    root,
    words,
    // grow shows what the turn has now. ended: nothing more comes.
    grow: ended => {
      const something = Boolean(turn.content || turn.reasoning)
      if (!ended && !something && !waiting) {
        waiting = element('div', { class: 'waiting' }, element('i'), element('i'), element('i'))
        foot.before(waiting)
      }
      if ((ended || something) && waiting) waiting = waiting.remove()
      if (turn.reasoning) think(ended)
      if (!mine) answer.show(turn.content, ended)
    },
    // end shows what there is to do with the turn.
    end: () => {
      view.grow(true)
      const buttons = actions().map(([label, name, click]) => label === 'Link'
        ? element('a', { class: 'link plain', href: click, title: 'A link that repeats this answer' }, icon(name), label)
        : element('button', { type: 'button', class: 'plain', click }, icon(name), label))
      foot.replaceChildren(...(mine ? [] : facts(turn)), element('span', { class: 'buttons' }, ...buttons))
      root.querySelector('.error')?.remove()
      if (turn.error) foot.before(element('p', { class: 'error' }, icon('alert'), turn.error))
    },
  }
  return view
}

// editor puts a field for another text in the place of the words of a turn.
const editor = (view, text, label, done) => {
  const area = element('textarea', { 'aria-label': 'Edit the message', rows: Math.min(12, text.split('\n').length + 1) })
  area.value = text
  const close = () => {
    form.replaceWith(view.words)
    view.root.classList.remove('editing')
  }
  const form = element('form', {
    class: 'edit',
    submit: e => {
      e.preventDefault()
      if (!area.value.trim()) return area.focus()
      close()
      done(area.value)
    },
    keydown: e => {
      if (e.key === 'Escape') {
        e.stopPropagation()
        close()
        view.root.querySelector('.buttons button')?.focus()
      } else if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) form.requestSubmit()
    },
  }, area, element('div', {}, element('button', { class: 'main' }, label), element('button', { type: 'button', click: close }, 'Cancel')))
  view.words.replaceWith(form)
  view.root.classList.add('editing')
  area.focus()
}
