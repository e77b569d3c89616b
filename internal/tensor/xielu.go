package tensor

// XIELUGate is the Gate of Apertus (N42), given the parameters as they are stored.
func XIELUGate(alphaP, alphaN, beta, eps float32) Gate {
	a, b := Softplus(alphaP), beta+Softplus(alphaN)
	return func(y, gate, up []float32) {
		var room [xieluAtOnce]float32
		for at := 0; at < len(y); at += xieluAtOnce {
			n := min(xieluAtOnce, len(y)-at)
			x, e := gate[at:][:n], room[:n]
			for i, v := range x {
				e[i] = min(v, eps)
			}
			exps(e)
			for i, v := range x {
				curve := float32(b * (e[i] - 1 - v))
				if v > 0 {
					curve = float32(a*v) * v
				}
				y[at+i] = float32(curve+float32(beta*v)) * up[at+i]
			}
		}
	}
}

// xieluAtOnce is the number of values of a XIELUGate in scratch memory.
const xieluAtOnce = 256

// Softplus is ln(1 + e^x), in float64 (N42).
func Softplus(x float32) float32 {
	return float32(Ln64(1 + Exp64(min(max(float64(x), -softplusEnd), softplusEnd))))
}

// softplusEnd bounds the arguments of softplus, as Exp64 asks for.
const softplusEnd = 700

// exps sets z to e^z (N9).
func exps(z []float32) {
	var l lanes
	n := whole(len(z))
	expSum(&l, z[:n], 0)
	expSumGo(&l, z[n:], 0)
}
