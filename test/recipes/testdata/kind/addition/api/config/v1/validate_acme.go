package configv1

func (a *Acme) check(v *validator) {
	if a.GetTons() > 0 && a.GetCargo() == "" {
		v.fail("tons", "needs a cargo")
	}
}
