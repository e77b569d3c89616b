package main

import "fmt"

// openerOfPlanes unpacks digits in two planes. The registers of the table hold the shifts of the lanes of the upper
// plane, the mask that chooses lower parts, the bits of a digit, and the digit of weight zero; for a lower plane of two
// bits also the shifts of its lanes.
func openerOfPlanes(p digitPlanes) opener {
	const shifts, chosen, digit, zero, lowerShifts = 31, 30, 29, 28, 27
	o := opener{
		name: p.name("Planes%dAMX"), what: p.what(), quad: p.four(), tables: []int{shifts, chosen, digit, zero},
		load: func(f *file, at string, z int) { f.p("VMOVDQU64 %s, Z%d", at, z) },
	}
	if p.low == 2 {
		o.tables = append(o.tables, lowerShifts)
		o.load = func(f *file, at string, z int) { f.p("VBROADCASTI64X4 %s, Z%d", at, z) }
	}
	repeated := map[int]string{1: "VBROADCASTI32X4", 2: "VBROADCASTI64X4"}[p.high]
	constant := func(word string) (operand, suffix string) {
		if word == bytesOf(1<<p.bits()-1) {
			return fmt.Sprintf("Z%d", digit), ""
		}
		return fmt.Sprintf("Z%d", chosen), ""
	}
	o.open = func(f *file, at string, z int) {
		f.p("%s %s, Z17", repeated, displaced(at, p.upper()))
		f.p("VPSRLVQ Z%d, Z17, Z17", shifts)
		if p.low == 2 {
			f.p("VPSRLVQ Z%d, Z%d, Z%d", lowerShifts, z, z)
		}
		joinPlanes(f, p, z, 16, 17, constant)
		f.p("VPSUBB Z%d, Z16, Z16", zero)
		f.p("VPSUBB Z%d, Z17, Z17", zero)
	}
	return o
}
