package device

// BestOf is Best with other drivers than those of the program.
var BestOf = best
