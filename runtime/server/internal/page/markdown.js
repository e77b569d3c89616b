'use strict'
// A text that grows, as Markdown. What is complete is built once; the block at the end, which has a bounded length, is built again
// for each addition and patched in, and code at the end grows in place. So the cost is linear in the text and in the additions.

const mostTail = 8192 // characters of a block; a longer one goes on in a next one
const patience = 128 // a block is built again when it has grown by this part of it: one of 1,000 characters by 8
const undecided = /^[\s\-=*_~`#>|:+.)\d]{1,8}$/ // a line that begins so may become anything: it is shown when more of it is there

class Markdown {
  constructor(into) {
    this.into = into
    this.from = 0 // begin of the block at the end
    this.seen = 0 // begin of the line at the end
    this.looked = 0 // no line ends between seen and here
    this.built = 0 // what is shown ends here
    this.begin()
  }

  // begin makes the place of a block.
  begin() {
    this.tail = element('div', { class: 'block' })
    this.into.append(this.tail)
    this.code = null // {opening, code, shown}: fenced code at the end
    this.list = this.gap = false
  }

  // show takes the text so far, which begins with that of the last call. ended: nothing follows.
  show(text, ended) {
    for (let end; (end = text.indexOf('\n', this.looked)) >= 0; this.seen = this.looked = end + 1) this.line(text, end)
    this.looked = text.length
    const waits = !ended && undecided.test(text.slice(this.seen, this.seen + 9))
    if (this.code) {
      const closed = ended && closes(text.slice(this.seen), this.code.opening)
      return this.grow(text, waits || closed ? this.seen : text.length)
    }
    if (!ended && text.length - this.built < (text.length - this.from) / patience) return
    if (text.length - this.from > mostTail) this.close(text, this.seen > this.from ? this.seen : text.length)
    this.build(text, waits ? this.seen : text.length)
  }

  // line looks at a complete line: does a block end before it?
  line(text, end) {
    const line = text.slice(this.seen, end)
    if (this.code) {
      if (closes(line, this.code.opening)) this.endCode(text, end)
      return
    }
    if (isBlank(line)) {
      this.gap = true
      return
    }
    const opening = fence.exec(line), indented = indentOf(line) > 1
    if (opening && !(this.list && indented)) return this.beginCode(text, end, opening)
    const goesOn = this.list && (indented || item.test(line))
    if ((this.gap && !goesOn) || this.seen - this.from > mostTail) this.close(text, this.seen)
    if (isBlank(text.slice(this.from, this.seen))) this.list = item.test(line)
    this.gap = false
  }

  beginCode(text, end, [, , opening, info]) {
    this.close(text, this.seen)
    const { frame, code } = codeBlock(info)
    this.tail.append(frame)
    this.code = { opening, code, shown: end + 1 }
  }

  endCode(text, end) {
    this.grow(text, this.seen)
    this.from = end + 1
    this.begin()
  }

  grow(text, end) {
    if (end <= this.code.shown) return
    addCode(this.code.code, text.slice(this.code.shown, end))
    this.code.shown = end
  }

  // close ends the block at a place, and others before it if there is too much for one.
  close(text, end) {
    while (end - this.from > mostTail) {
      const space = text.lastIndexOf(' ', this.from + mostTail)
      this.finish(text, space > this.from ? space + 1 : this.from + mostTail)
    }
    this.finish(text, end)
  }

  finish(text, end) {
    this.build(text, end)
    this.from = end
    this.begin()
  }

  build(text, end) {
    patch(this.tail, blocks(text.slice(this.from, end).split('\n')))
    this.built = text.length
  }
}
