;; error: none
;; world: pricing-policy
