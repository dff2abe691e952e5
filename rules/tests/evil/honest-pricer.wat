;; fault: none
;; world: pricing-policy
