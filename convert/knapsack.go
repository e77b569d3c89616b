package convert

import (
	"cmp"
	"math"
	"slices"
)

// option is a form that something may take: what it weighs, and what it costs.
type option struct {
	bytes int64
	cost  float64
}

// knapsack chooses one option of each item, with the least sum of costs among all choices of at most budget bytes. It
// returns nil if the smallest options are larger than that.
//
// Sums are built up item by item: of sums that weigh and cost no less than another one, none can be part of a better
// choice. A Lagrange multiplier bounds from below what the items to come cost, and so discards the sums that end above
// the best choice that the multiplier itself gives.
func knapsack(items [][]option, budget int64) []int {
	least := make([]int64, len(items)+1) // bytes of the items from one on
	for i := len(items) - 1; i >= 0; i-- {
		least[i] = least[i+1] + slices.MinFunc(items[i], byBytes).bytes
	}
	if least[0] > budget {
		return nil
	}
	price, most := relax(items, budget)
	relaxed := make([]float64, len(items)+1) // cost of the items from one on, and the price of their bytes
	for i := len(items) - 1; i >= 0; i-- {
		o := items[i][cheapest(items[i], price)]
		relaxed[i] = relaxed[i+1] + o.cost + price*float64(o.bytes)
	}
	sums := []*partial{{}}
	for i, options := range items {
		var next []*partial
		for _, s := range sums {
			for k, o := range options {
				n := &partial{option{s.bytes + o.bytes, s.cost + o.cost}, k, s}
				left := budget - n.bytes
				if left < least[i+1] || n.cost+relaxed[i+1]-price*float64(left) > most {
					continue
				}
				next = append(next, n)
			}
		}
		sums = undominated(next)
	}
	best := sums[len(sums)-1] // the heaviest costs least
	choice := make([]int, len(items))
	for i := len(items) - 1; i >= 0; i, best = i-1, best.before {
		choice[i] = best.chosen
	}
	return choice
}

// partial is a choice for the first items.
type partial struct {
	option
	chosen int // for the last of them
	before *partial
}

func byBytes(a, b option) int { return cmp.Compare(a.bytes, b.bytes) }

// undominated sorts sums by bytes, and leaves out those that cost no less than a lighter one.
func undominated(sums []*partial) (list []*partial) {
	slices.SortStableFunc(sums, func(a, b *partial) int {
		return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.cost, b.cost))
	})
	for _, s := range sums {
		if len(list) == 0 || s.cost < list[len(list)-1].cost {
			list = append(list, s)
		}
	}
	return list
}

// relax returns the price of a byte at which the options that are cheapest then fit the budget, nearly the least such
// price, and their cost, rounded up.
func relax(items [][]option, budget int64) (price, cost float64) {
	at := func(price float64) (bytes int64, cost float64) {
		for _, options := range items {
			o := options[cheapest(options, price)]
			bytes, cost = bytes+o.bytes, cost+o.cost
		}
		return bytes, cost
	}
	low, high := 0.0, 1e-12
	for bytes, _ := at(high); bytes > budget && high < 1e300; bytes, _ = at(high) {
		high *= 2
	}
	if bytes, _ := at(low); bytes <= budget {
		high = low
	}
	for range 100 {
		if middle := (low + high) / 2; low < middle && middle < high {
			if bytes, _ := at(middle); bytes > budget {
				low = middle
			} else {
				high = middle
			}
		}
	}
	_, cost = at(high)
	return high, cost + 1e-9*math.Abs(cost)
}

// cheapest is the option that costs least where bytes have a price; of equal ones the lightest.
func cheapest(options []option, price float64) int {
	best := 0
	for i, o := range options {
		b := options[best]
		a, z := o.cost+price*float64(o.bytes), b.cost+price*float64(b.bytes)
		if a < z || a == z && o.bytes < b.bytes {
			best = i
		}
	}
	return best
}
