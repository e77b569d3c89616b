package convert

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestKnapsack: the choice costs as little as the best of all choices, and fits the budget.
func TestKnapsack(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	for range 300 {
		items := make([][]option, 1+r.IntN(6))
		var least, most int64
		for i := range items {
			for range 1 + r.IntN(4) {
				items[i] = append(items[i], option{1 + r.Int64N(40), float64(r.IntN(50)) / 7})
			}
			least += slices.MinFunc(items[i], byBytes).bytes
			most += slices.MaxFunc(items[i], byBytes).bytes
		}
		budget := least - 1 + r.Int64N(most-least+3)
		want, fits := everyChoice(items, budget)
		got := knapsack(items, budget)
		if (got != nil) != fits {
			t.Fatalf("%v in %d: %v; a choice fits: %t", items, budget, got, fits)
		}
		if sum := total(items, got); fits && (sum.bytes > budget || sum.cost > want+1e-9) {
			t.Fatalf("%v in %d: %v has %v; the best costs %g", items, budget, got, sum, want)
		}
	}
}

// everyChoice is the least cost of all choices.
func everyChoice(items [][]option, budget int64) (cost float64, fits bool) {
	if len(items) == 0 {
		return 0, budget >= 0
	}
	for _, o := range items[0] {
		rest, ok := everyChoice(items[1:], budget-o.bytes)
		if ok && (!fits || o.cost+rest < cost) {
			cost, fits = o.cost+rest, true
		}
	}
	return cost, fits
}

func total(items [][]option, choice []int) (sum option) {
	for i, k := range choice {
		sum.bytes += items[i][k].bytes
		sum.cost += items[i][k].cost
	}
	return sum
}

// TestKnapsackLarge: as many items as a model of 80 layers has, whose sums are nearly all different. Without the bound
// of the multiplier, there would be millions.
func TestKnapsackLarge(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 2))
	items, least := make([][]option, 320), int64(0)
	for i := range items {
		weights, cost := 1<<20+r.Int64N(1<<24), r.ExpFloat64()
		items[i] = []option{{weights * 17 / 32, cost}, {weights * 9 / 16, cost * 0.6}, {weights + 4096, cost / 300}}
		least += items[i][0].bytes
	}
	for _, more := range []int64{0, 1, 1e6, 1e8, 5e8, 1e10} {
		sum := total(items, knapsack(items, least+more))
		price, _ := relax(items, least+more)
		bound := -price * float64(least+more)
		for _, options := range items {
			o := options[cheapest(options, price)]
			bound += o.cost + price*float64(o.bytes)
		}
		if sum.bytes > least+more || sum.cost < bound-1e-6 || sum.cost > 1.001*bound+0.02 {
			t.Errorf("%d bytes more than the least: %v; at least %g", more, sum, bound)
		}
	}
}
