package lint

import (
	"fmt"
	"html"
	"strings"
)

// The picture in user units: rooms at the left, the folder internal at the right of the floor that its packages stand
// on.
const (
	pictureWidth = 980.0
	roomsWidth   = 620.0
	margin       = 20.0
	gap          = 28.0 // between floors, for arrows
	chipHeight   = 22.0
	chipGap      = 6.0
	headHeight   = 50.0
	letter       = 6.65 // width of a letter of a chip
)

// Colours are the colours of the charts (internal/plot), on light and on dark ground.
var (
	lightInks = [...]string{"#2a78d6", "#4a3aa7", "#eb6834", "#e34948", "#1baf7a", "#eda100", "#008300", "#a8a79f"}
	darkInks  = [...]string{"#3987e5", "#9085e9", "#d95926", "#e66767", "#199e70", "#c98500", "#3fa33f", "#77766f"}
)

// picture draws the house as SVG.
func (h *house) picture() string {
	c := &sheet{boxes: map[string]box{}}
	y := margin
	for floor := range groups {
		y += h.floor(c, floor, y) + gap
	}
	for _, i := range sortedPairs(h.imports) {
		c.arrow(i[0], i[1])
	}
	c.legend()
	height := y - gap + margin
	const frame = `<svg xmlns="http://www.w3.org/2000/svg" class="house" viewBox="0 0 %[1]v %[2]v" role="img" ` +
		`aria-label="Packages of lowpack by floor: each imports what is below it">
<style>%[3]s</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">` +
		`<path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>
<rect class="ground" width="%[1]v" height="%[2]v"/>
%[4]s</svg>
`
	return fmt.Sprintf(frame, pictureWidth, height, style(), c.text.String())
}

// style follows the reader's light or dark setting.
func style() string {
	const common = `.house{font:12px system-ui,-apple-system,"Segoe UI",sans-serif}` +
		`.house .name{font-size:15px;font-weight:600}` +
		`.house .chip{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}` +
		`.house .room{stroke-width:1.5;fill-opacity:.1}.house .key{fill-opacity:.22;stroke:none}` +
		`.house .own{fill:none;stroke-dasharray:3 2}` +
		`.house .arrow{fill:none;stroke-width:1.5}`
	ground := func(back, ink, soft string, inks []string) string {
		s := fmt.Sprintf(`.house .ground{fill:%s}.house text{fill:%s}`, back, ink)
		s += fmt.Sprintf(`.house .what{fill:%[1]s}.house .arrow{stroke:%[1]s}.house .tip{fill:%[1]s}`, soft)
		for i, c := range inks {
			s += fmt.Sprintf(`.house .c%d{fill:%s;stroke:%s}`, i, c, c)
		}
		return s
	}
	return ground("#fcfcfb", "#0b0b0b", "#52514e", lightInks[:]) + common +
		`@media(prefers-color-scheme:dark){` + ground("#1a1a19", "#fff", "#c3c2b7", darkInks[:]) +
		`.house .own{fill:none}}`
}

// sheet is the drawing so far.
type sheet struct {
	text  strings.Builder
	boxes map[string]box // of groups
}

type box struct{ x, y, w, h float64 }

func (c *sheet) draw(format string, a ...any) { fmt.Fprintf(&c.text, format+"\n", a...) }

// floor draws one, from y down, and returns its height.
func (h *house) floor(c *sheet, floor int, y float64) float64 {
	var rooms []room
	free, x := roomsWidth-gap*float64(len(groups[floor])-1), margin
	for _, g := range groups[floor] {
		r := room{g, box{x, y, free * g.share, 0}, h.rooms[g.name]}
		if g.name == "internal" {
			r.w, r.names = pictureWidth-2*margin, h.beside[floor]
		}
		rooms, x = append(rooms, r), x+r.w+gap
	}
	if names := h.beside[floor]; len(names) > 0 && floor < len(groups)-1 {
		g := group{name: "internal", what: "imports " + h.standOn(floor)}
		rooms = append(rooms, room{g, box{x, y, pictureWidth - margin - x, 0}, names})
	}
	height := 0.0
	for _, r := range rooms {
		height = max(height, headHeight+chips(nil, r.box, r.names, 0))
	}
	for _, r := range rooms {
		r.h = height
		if r.x < margin+roomsWidth {
			c.boxes[r.name] = r.box
		}
		c.room(r)
	}
	return height
}

// room is a group, or a part of the folder internal, with its place and its packages.
type room struct {
	group
	box
	names []string
}

// standOn returns the groups of a floor that the packages next to it import.
func (h *house) standOn(floor int) string {
	var names []string
	for _, g := range groups[floor] {
		if h.stand[g.name] {
			names = append(names, g.name)
		}
	}
	return strings.Join(names, ", ")
}

// colourOf a group is its number; all of the folder internal is grey.
func colourOf(name string) (n int) {
	for _, list := range groups {
		for _, g := range list {
			if g.name == name {
				return n
			}
			n++
		}
	}
	return n
}

// room draws a group with its packages.
func (c *sheet) room(r room) {
	colour := colourOf(r.name)
	c.draw(`<rect class="room c%d" x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="8"/>`, colour, r.x, r.y, r.w, r.h)
	c.draw(`<text class="name" x="%.0f" y="%.0f">%s</text>`, r.x+12, r.y+22, r.name)
	c.draw(`<text class="what" x="%.0f" y="%.0f">%s</text>`, r.x+12, r.y+39, html.EscapeString(r.what))
	chips(c, r.box, r.names, colour)
}

// legend stands at the right of the first floors, where nothing else is.
func (c *sheet) legend() {
	x, y, colour := margin+roomsWidth+gap, margin, colourOf("internal")
	c.draw(`<path class="arrow" marker-end="url(#tip)" d="M%.0f %.0fh36"/>`, x+4, y+14)
	c.draw(`<text class="what" x="%.0f" y="%.0f">imports; what lies further down, too</text>`, x+76, y+18)
	for i, s := range []struct{ kind, says string }{
		{"key", "a package of the public API"}, {"own", "one that no other module can import"},
	} {
		top := y + 34 + 32*float64(i)
		c.draw(`<rect class="%s c%d" x="%.0f" y="%.0f" width="64" height="%.0f" rx="5"/>`,
			s.kind, colour, x, top, chipHeight)
		c.draw(`<text class="chip" x="%.0f" y="%.0f">package</text>`, x+7, top+15)
		c.draw(`<text class="what" x="%.0f" y="%.0f">%s</text>`, x+76, top+15, s.says)
	}
}

// chips writes the names of packages into a box, line by line, and returns the height that they take; without a sheet
// it draws nothing. Packages that no other module can import have no ground.
func chips(c *sheet, b box, names []string, colour int) float64 {
	if len(names) == 0 {
		return 0
	}
	x, y := 12.0, headHeight
	for _, name := range names {
		kind := "key"
		if hidden(name) > 0 || colour == colourOf("internal") {
			name, kind = strings.ReplaceAll(name, "internal/", ""), "own"
		}
		w := letter*float64(len(name)) + 14
		if x > 12 && x+w > b.w-12 {
			x, y = 12, y+chipHeight+chipGap
		}
		if c != nil {
			c.draw(`<rect class="%s c%d" x="%.1f" y="%.1f" width="%.1f" height="%.0f" rx="5"/>`,
				kind, colour, b.x+x, b.y+y, w, chipHeight)
			c.draw(`<text class="chip" x="%.1f" y="%.1f">%s</text>`, b.x+x+7, b.y+y+15, name)
		}
		x += w + chipGap
	}
	return y + chipHeight + 12 - headHeight
}

// arrow goes from a room to one of the next floor, or to its neighbour at the right. What else a room imports is below.
func (c *sheet) arrow(from, to string) {
	a, b := c.boxes[from], c.boxes[to]
	upper, _ := find(from)
	lower, _ := find(to)
	switch {
	case lower == upper && b.x < a.x+a.w+2*gap:
		c.draw(`<path class="arrow" marker-end="url(#tip)" d="M%.0f %.0fH%.0f"/>`, a.x+a.w, a.y+22, b.x-2)
	case lower == upper+1:
		x := max(a.x, b.x) + min(a.w, b.w)/2
		c.draw(`<path class="arrow" marker-end="url(#tip)" d="M%.0f %.0fV%.0f"/>`, x, a.y+a.h, b.y-2)
	}
}
