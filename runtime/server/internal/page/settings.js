'use strict'
// What the user has set: for answers, kept for all conversations; the API key, kept by the tab; the look.

const fields = [...document.querySelectorAll('#settings [name]')]
const field = name => fields.find(f => f.name === name)
const key = () => field('key').value

const keepSettings = () => {
  const values = Object.fromEntries(fields.filter(f => f.name !== 'key').map(f => [f.name, f.value]))
  const model = $('model').value || read(kept, 'lowpack.settings')?.model
  write(kept, 'lowpack.settings', { ...values, model })
  write(keptByTab, 'lowpack.key', key())
}

const recallSettings = () => {
  const values = read(kept, 'lowpack.settings') ?? {}
  for (const f of fields) f.value = isText(values[f.name]) ? values[f.name] : ''
  field('key').value = read(keptByTab, 'lowpack.key') ?? ''
}

// chosen are the settings of the next answer.
const chosen = () => ({
  settings: Object.fromEntries(numbers.filter(n => field(n).value !== '').map(n => [n, Number(field(n).value)])),
  system: field('system').value,
  seed: field('seed').value || undefined,
  model: $('model').value || undefined,
})

// valid says whether all settings are; else it shows the first one that is not.
const valid = () => {
  const wrong = fields.find(f => !f.checkValidity())
  if (!wrong) return true
  showSettings(wrong)
  wrong.reportValidity()
  return false
}

const showSettings = at => {
  if (!$('settings').open) $('settings').showModal()
  at?.focus()
}

// describe fills the choice of models.
const describe = async () => {
  const wanted = $('model').value || read(kept, 'lowpack.settings')?.model
  try {
    const models = await modelsOf(key())
    $('model').replaceChildren(...models.map(m => element('option', { value: m.id }, m.id)))
    if (models.some(m => m.id === wanted)) $('model').value = wanted
    const context = models.find(m => m.id === $('model').value)?.max_model_len
    $('context').textContent = context ? `context ${context}` : ''
    $('notice').replaceChildren()
  } catch (e) {
    $('context').textContent = ''
    if (e.status === 401) notice(e.message, 'Enter the key', () => showSettings(field('key')))
    else notice(e.message, 'Try again', describe)
  }
}

const looks = { system: 'as the system', light: 'light', dark: 'dark' }

const look = name => {
  if (name === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = name
  $('look').replaceChildren(icon(name))
  $('look').title = 'Colours: ' + looks[name]
  $('look').setAttribute('aria-label', $('look').title)
}

$('look').onclick = () => {
  const names = Object.keys(looks)
  const next = names[(names.indexOf(document.documentElement.dataset.theme ?? 'system') + 1) % names.length]
  look(next)
  write(kept, 'lowpack.look', next)
}
const keptLook = read(kept, 'lowpack.look')
look(Object.hasOwn(looks, keptLook) ? keptLook : 'system')

for (const f of fields) f.onchange = keepSettings
field('key').onchange = $('model').onchange = () => {
  keepSettings()
  describe()
}
$('set').onclick = () => showSettings()
$('defaults').onclick = () => {
  for (const f of fields) if (f.name !== 'key') f.value = ''
  keepSettings()
}
$('settings').onclose = keepSettings
