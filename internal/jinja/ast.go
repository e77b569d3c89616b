package jinja

// Statements of a template.
type (
	stmt interface {
		exec(r *run, s *scope) (flow, error)
	}

	textStmt  struct{ text string }
	printStmt struct {
		value expr
		line  int
	}
	ifStmt struct {
		cond        expr
		then, else_ []stmt
		line        int
	}
	forStmt struct {
		target      target
		over        expr
		filter      expr // nil: none
		body, else_ []stmt
		recursive   bool
		line        int
	}
	setStmt struct {
		target target
		value  expr
		line   int
	}
	captureStmt struct { // {% set x %} … {% endset %}
		target  target
		filters []filterCall
		body    []stmt
		line    int
	}
	filterStmt struct { // {% filter f %} … {% endfilter %}
		filters []filterCall
		body    []stmt
		line    int
	}
	withStmt struct {
		names  []target
		values []expr
		body   []stmt
		line   int
	}
	macroStmt struct {
		name string
		macro
	}
	callStmt struct { // {% call f() %} … {% endcall %}
		call *callExpr
		macro
	}
	flowStmt flow
	// groupStmt runs its body as if it stood alone: {% generation %} … {% endgeneration %}.
	groupStmt struct{ body []stmt }
)

// macro is what {% macro %} and {% call %} define.
type macro struct {
	params   []string
	defaults []expr // of the last parameters
	body     []stmt
	line     int
}

// flow says how a statement ended.
type flow byte

const (
	flowNext flow = iota
	flowBreak
	flowContinue
)

// target of an assignment: a name, an attribute of a namespace, or several of them.
type target struct {
	name  string
	attr  string // not "": attribute of the namespace name
	parts []target
}

// Expressions.
type (
	expr interface {
		eval(r *run, s *scope) (Value, error)
	}

	constExpr struct{ value Value }
	nameExpr  struct{ name string }
	listExpr  struct {
		items []expr
		tuple bool
	}
	dictExpr  struct{ keys, values []expr }
	unaryExpr struct {
		op   string // "-", "+" or "not"
		expr expr
	}
	binaryExpr struct {
		op          string
		left, right expr
	}
	logicExpr struct { // and, or
		and         bool
		left, right expr
	}
	compareExpr struct { // a < b < c …
		first expr
		ops   []string
		rest  []expr
	}
	condExpr struct {
		cond, then, else_ expr // else_ nil: undefined
	}
	attrExpr struct {
		of   expr
		name string
	}
	itemExpr  struct{ of, key expr }
	sliceExpr struct{ of, from, to, step expr }
	callExpr  struct {
		of   expr
		args callArgs
		line int
	}
	filterExpr struct {
		of expr
		filterCall
	}
	testExpr struct {
		of     expr
		negate bool
		filterCall
	}
)

// filterCall is the name of a filter or test with its arguments.
type filterCall struct {
	name string
	args callArgs
	line int
}

// callArgs are the arguments of a call as written.
type callArgs struct {
	positional []expr
	names      []string
	named      []expr
	star       expr // *args
	starStar   expr // **kwargs
}
