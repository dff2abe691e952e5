;; result: ok, none. The request comes flat: 17 values are too many, so by pointer.
(func (export "phasemeter:policy/pricer@0.1.0#quote-price") (param i32) (result i32)
  (i32.const 1536))
