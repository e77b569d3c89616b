package jinja

import (
	"math"
	"math/big"
	"strings"

	"github.com/lowpack/lowpack/internal/marked"
)

func (e constExpr) eval(*run, *scope) (Value, error) { return e.value, nil }

func (e nameExpr) eval(r *run, s *scope) (Value, error) {
	if v, ok := s.get(e.name); ok {
		return v, r.pay(stepWork)
	}
	return Undefined{e.name}, r.pay(stepWork)
}

// all evaluates expressions in order.
func (r *run) all(exprs []expr, s *scope) ([]Value, error) {
	out := make([]Value, len(exprs))
	for i, e := range exprs {
		var err error
		if out[i], err = e.eval(r, s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (e *listExpr) eval(r *run, s *scope) (Value, error) {
	items, err := r.all(e.items, s)
	if err != nil {
		return nil, err
	}
	l := NewList(items)
	l.Tuple = e.tuple
	return r.sized(l)
}

func (e *dictExpr) eval(r *run, s *scope) (Value, error) {
	keys, err := r.all(e.keys, s)
	if err != nil {
		return nil, err
	}
	values, err := r.all(e.values, s)
	if err != nil {
		return nil, err
	}
	d := &Dict{}
	for i, k := range keys {
		if _, ok := hashable(k); !ok {
			return nil, r.fail("%s as the key of a dict", typeName(k))
		}
		d.Set(k, values[i])
	}
	return r.sized(d)
}

func (e *condExpr) eval(r *run, s *scope) (Value, error) {
	v, err := e.cond.eval(r, s)
	switch {
	case err != nil:
		return nil, err
	case truthy(v):
		return e.then.eval(r, s)
	case e.else_ != nil:
		return e.else_.eval(r, s)
	}
	return Undefined{"else"}, nil
}

func (e *logicExpr) eval(r *run, s *scope) (Value, error) {
	v, err := e.left.eval(r, s)
	if err != nil || truthy(v) != e.and {
		return v, err
	}
	return e.right.eval(r, s)
}

func (e *unaryExpr) eval(r *run, s *scope) (Value, error) {
	v, err := e.expr.eval(r, s)
	if err != nil {
		return nil, err
	}
	if e.op == "not" {
		return !truthy(v), nil
	}
	sign := 1
	if e.op == "-" {
		sign = -1
	}
	if n, ok := integer(v); ok && n != math.MinInt {
		return sign * n, nil
	}
	if f, ok := v.(float64); ok {
		return float64(sign) * f, nil
	}
	return nil, r.fail("%s in front of %s", e.op, typeName(v))
}

func (e *compareExpr) eval(r *run, s *scope) (Value, error) {
	left, err := e.first.eval(r, s)
	if err != nil {
		return nil, err
	}
	for i, op := range e.ops {
		right, err := e.rest[i].eval(r, s)
		if err != nil {
			return nil, err
		}
		ok, err := r.compare(op, left, right)
		if err != nil || !ok {
			return false, err
		}
		left = right
	}
	return true, nil
}

// compare applies a comparison.
func (r *run) compare(op string, a, b Value) (bool, error) {
	if err := r.pay(stepWork + min(sizeOf(a).weight, sizeOf(b).weight)); err != nil {
		return false, err
	}
	switch op {
	case "==":
		return equal(a, b), nil
	case "!=":
		return !equal(a, b), nil
	case "in":
		return r.in(a, b)
	case "not in":
		ok, err := r.in(a, b)
		return !ok, err
	}
	c, err := r.order(a, b)
	if err != nil {
		return false, err
	}
	switch op {
	case "<":
		return c < 0, nil
	case "<=":
		return c == -1 || c == 0, nil
	case ">":
		return c == 1, nil
	}
	return c == 1 || c == 0, nil
}

// order returns −1, 0 or 1; −2 when a NaN is among the numbers.
func (r *run) order(a, b Value) (int, error) {
	if x, ok := asString(a); ok {
		if y, ok := asString(b); ok {
			return strings.Compare(x, y), nil
		}
	}
	if x, ok := a.(*List); ok {
		if y, ok := b.(*List); ok && x.Tuple == y.Tuple {
			return r.orderLists(x, y)
		}
	}
	if x, y, ok := numbers(a, b); ok {
		if n, ok := integer(a); ok {
			if m, ok := integer(b); ok {
				return three(n < m, n > m), nil
			}
		}
		if x != x || y != y {
			return -2, nil
		}
		return three(x < y, x > y), nil
	}
	return 0, r.fail("%s and %s cannot be ordered", typeName(a), typeName(b))
}

func (r *run) orderLists(x, y *List) (int, error) {
	for i := range min(len(x.Items), len(y.Items)) {
		if !equal(x.Items[i], y.Items[i]) {
			return r.order(x.Items[i], y.Items[i])
		}
	}
	return three(len(x.Items) < len(y.Items), len(x.Items) > len(y.Items)), nil
}

func three(less, greater bool) int {
	switch {
	case less:
		return -1
	case greater:
		return 1
	}
	return 0
}

// in says whether a is in b.
func (r *run) in(a, b Value) (bool, error) {
	if err := r.pay(sizeOf(b).weight); err != nil {
		return false, err
	}
	if x, ok := asString(b); ok {
		s, ok := asString(a)
		if !ok {
			return false, r.fail("%s in a string", typeName(a))
		}
		return strings.Contains(x, s), nil
	}
	switch x := b.(type) {
	case *Dict:
		_, ok := x.Get(a)
		return ok, nil
	case *List:
		for _, item := range x.Items {
			if equal(a, item) {
				return true, nil
			}
		}
		return false, nil
	case Undefined:
		return false, nil
	}
	return false, r.fail("%s holds nothing", typeName(b))
}

func (e *binaryExpr) eval(r *run, s *scope) (Value, error) {
	left, err := e.left.eval(r, s)
	if err != nil {
		return nil, err
	}
	right, err := e.right.eval(r, s)
	if err != nil {
		return nil, err
	}
	if err := r.pay(stepWork); err != nil {
		return nil, err
	}
	if e.op == "~" {
		a, err := r.str(left)
		if err != nil {
			return nil, err
		}
		b, err := r.str(right)
		if err != nil {
			return nil, err
		}
		return r.joined(a, b)
	}
	return r.arithmetic(e.op, left, right)
}

// joined pays for two strings in a row before it makes them.
func (r *run) joined(a, b marked.Text) (Value, error) {
	if err := r.pay(len(a.S) + len(b.S)); err != nil {
		return nil, err
	}
	return r.text(marked.Join(a, b))
}

func (r *run) arithmetic(op string, left, right Value) (Value, error) {
	if a, ok := AsText(left); ok {
		if b, ok := AsText(right); ok && op == "+" {
			return r.joined(a, b)
		}
		if n, ok := integer(right); ok && op == "*" {
			return r.repeat(a, n)
		}
		if op == "%" {
			return nil, r.unsupported("formatting with %%")
		}
	}
	if a, ok := left.(*List); ok {
		if b, ok := right.(*List); ok && op == "+" && a.Tuple == b.Tuple {
			if err := r.pay(itemWeight * (len(a.Items) + len(b.Items))); err != nil {
				return nil, err
			}
			l := NewList(append(append(make([]Value, 0, len(a.Items)+len(b.Items)), a.Items...), b.Items...))
			l.Tuple = a.Tuple
			return r.sized(l)
		}
	}
	if n, ok := integer(left); ok {
		if m, ok := integer(right); ok {
			return r.integers(op, n, m)
		}
		if b, ok := AsText(right); ok && op == "*" {
			return r.repeat(b, n)
		}
	}
	if x, y, ok := numbers(left, right); ok {
		return r.floats(op, x, y)
	}
	return nil, r.fail("%s %s %s", typeName(left), op, typeName(right))
}

func (r *run) repeat(t marked.Text, n int) (Value, error) {
	if n <= 0 || t.S == "" {
		return "", nil
	}
	if n > maxWork {
		n = maxWork + 1
	}
	if err := r.pay(n * (len(t.S) + len(t.Input))); err != nil {
		return nil, err
	}
	return textValue(marked.Text{S: strings.Repeat(t.S, n), Input: strings.Repeat(t.Input, n)}), nil
}

// integers computes as Python does, but refuses what does not fit 64 bits.
func (r *run) integers(op string, a, b int) (Value, error) {
	switch op {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return c, nil
		}
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return c, nil
		}
	case "*":
		if a == 0 || b == 0 {
			return 0, nil
		}
		if c := a * b; c/b == a && !(a == -1 && b == math.MinInt) && !(b == -1 && a == math.MinInt) {
			return c, nil
		}
	case "/":
		return r.floats(op, float64(a), float64(b))
	case "//", "%":
		if b == 0 {
			return nil, r.fail("division by zero")
		}
		if b == -1 && a == math.MinInt {
			break
		}
		quotient, rest := a/b, a%b
		if rest != 0 && (rest < 0) != (b < 0) {
			quotient, rest = quotient-1, rest+b
		}
		if op == "%" {
			return rest, nil
		}
		return quotient, nil
	case "**":
		if b < 0 {
			return r.floats(op, float64(a), float64(b))
		}
		if c, ok := power(a, b); ok {
			return c, nil
		}
	}
	return nil, r.fail("the result of %s does not fit 64 bits", op)
}

// power is a to the power of b ≥ 0 by squaring; ok is false where it does not fit 64 bits.
func power(a, b int) (result int, ok bool) {
	if a == 0 || a == 1 || a == -1 {
		b = min(b, 2+b%2) // the same sign
	}
	if b > 63 {
		return 0, false
	}
	exact := new(big.Int).Exp(big.NewInt(int64(a)), big.NewInt(int64(b)), nil)
	return int(exact.Int64()), exact.IsInt64()
}

func (r *run) floats(op string, a, b float64) (Value, error) {
	if b == 0 && (op == "/" || op == "//" || op == "%") {
		return nil, r.fail("division by zero")
	}
	switch op {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "/":
		return a / b, nil
	case "//":
		return math.Floor(a / b), nil
	case "%":
		m := math.Mod(a, b)
		if m != 0 && (m < 0) != (b < 0) {
			m += b
		}
		return m, nil
	case "**":
		return math.Pow(a, b), nil
	}
	return nil, r.unsupported("the operator %s", op)
}
