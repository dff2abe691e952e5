;; error: output
;; world: pricer-policy
;; The option of valid-until is neither none nor some.
;; ok, some quote at 1552: price +0, plan +8, source +12, as-of +20, valid-from +32, valid-until +48, gpus +64
(data (i32.const 512) "a test" "2026-07-20")
(func (export "phasemeter:policy/pricer@0.1.0#quote-price") (param i32) (result i32)
  (i32.store8 (i32.const 1544) (i32.const 1))
  (i32.store (i32.const 1564) (i32.const 512))
  (i32.store (i32.const 1568) (i32.const 6))
  (i32.store (i32.const 1572) (i32.const 518))
  (i32.store (i32.const 1576) (i32.const 10))
  (i32.store8 (i32.const 1600) (i32.const 2))
  (i32.const 1536))
