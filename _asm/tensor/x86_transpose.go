package main

import "fmt"

func (m *x86) loadRows(d reg, groups []ptr, r int, ld, ld3 ptr) {
	insert := "VINSERTF128"
	if m.lanes == 16 {
		insert = "VINSERTF32X4"
	}
	for i, p := range groups {
		from := []string{"(%s)", "(%s)(%s*1)", "(%s)(%s*2)", "(%s)(%s*1)"}[r]
		switch r {
		case 0:
			from = fmt.Sprintf(from, p.x86())
		case 3:
			from = fmt.Sprintf(from, p.x86(), ld3.x86())
		default:
			from = fmt.Sprintf(from, p.x86(), ld.x86())
		}
		if i == 0 {
			m.line("VMOVUPS %s, X%d", from, d)
		} else {
			m.line("%s $%d, %s, %s, %s", insert, i, from, m.v(d), m.v(d))
		}
	}
}

func (m *x86) transpose4(d, tmp [4]reg) {
	m.line("VUNPCKLPS %s, %s, %s", m.v(d[1]), m.v(d[0]), m.v(tmp[0]))
	m.line("VUNPCKHPS %s, %s, %s", m.v(d[1]), m.v(d[0]), m.v(tmp[1]))
	m.line("VUNPCKLPS %s, %s, %s", m.v(d[3]), m.v(d[2]), m.v(tmp[2]))
	m.line("VUNPCKHPS %s, %s, %s", m.v(d[3]), m.v(d[2]), m.v(tmp[3]))
	m.line("VUNPCKLPD %s, %s, %s", m.v(tmp[2]), m.v(tmp[0]), m.v(d[0]))
	m.line("VUNPCKHPD %s, %s, %s", m.v(tmp[2]), m.v(tmp[0]), m.v(d[1]))
	m.line("VUNPCKLPD %s, %s, %s", m.v(tmp[3]), m.v(tmp[1]), m.v(d[2]))
	m.line("VUNPCKHPD %s, %s, %s", m.v(tmp[3]), m.v(tmp[1]), m.v(d[3]))
}
