;; error: out_of_fuel
;; world: pricer-policy
;; An endless loop for offers only: the byte is-offer of the request is at +152.
(func (export "phasemeter:policy/pricer@0.1.0#quote-price") (param $request i32) (result i32)
  (if (i32.load8_u offset=152 (local.get $request)) (then (loop $again (br $again))))
  (i32.const 1536))
