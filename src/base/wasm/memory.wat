;; The memory that packets live in, and the sum of the Internet checksum (RFC 1071) over a part of it.
;; ../arena.ts hands the memory out; memory_wasm.ts is this file as bytes.
(module
  ;; 64 MiB, never more: growing would detach every view.
  (memory (export "memory") 1024 1024)

  ;; The ones' complement sum of the 16-bit big-endian words in [at, end), folded to 16 bits; an odd last byte is the high
  ;; half of a word. At most 65,536 bytes: no lane can overflow. The words are added as little-endian ones and the bytes
  ;; of the result exchanged (RFC 1071 section 2, B).
  (func (export "sum") (param $at i32) (param $end i32) (result i32)
    (local $a v128)
    (local $b v128)
    (local $s i32)
    (block $done32
      (loop $next32
        (br_if $done32 (i32.gt_u (i32.add (local.get $at) (i32.const 32)) (local.get $end)))
        (local.set $a (i32x4.add (local.get $a)
          (i32x4.extadd_pairwise_i16x8_u (v128.load align=1 (local.get $at)))))
        (local.set $b (i32x4.add (local.get $b)
          (i32x4.extadd_pairwise_i16x8_u (v128.load offset=16 align=1 (local.get $at)))))
        (local.set $at (i32.add (local.get $at) (i32.const 32)))
        (br $next32)))
    (block $done8
      (loop $next8
        (br_if $done8 (i32.gt_u (i32.add (local.get $at) (i32.const 8)) (local.get $end)))
        (local.set $a (i32x4.add (local.get $a)
          (i32x4.extadd_pairwise_i16x8_u (v128.load64_zero align=1 (local.get $at)))))
        (local.set $at (i32.add (local.get $at) (i32.const 8)))
        (br $next8)))
    (local.set $a (i32x4.add (local.get $a) (local.get $b)))
    (local.set $s (i32.add
      (i32.add (i32x4.extract_lane 0 (local.get $a)) (i32x4.extract_lane 1 (local.get $a)))
      (i32.add (i32x4.extract_lane 2 (local.get $a)) (i32x4.extract_lane 3 (local.get $a)))))
    (block $done2
      (loop $next2
        (br_if $done2 (i32.gt_u (i32.add (local.get $at) (i32.const 2)) (local.get $end)))
        (local.set $s (i32.add (local.get $s) (i32.load16_u align=1 (local.get $at))))
        (local.set $at (i32.add (local.get $at) (i32.const 2)))
        (br $next2)))
    (if (i32.lt_u (local.get $at) (local.get $end))
      (then (local.set $s (i32.add (local.get $s) (i32.load8_u (local.get $at))))))
    (local.set $s (i32.add (i32.and (local.get $s) (i32.const 0xffff)) (i32.shr_u (local.get $s) (i32.const 16))))
    (local.set $s (i32.add (i32.and (local.get $s) (i32.const 0xffff)) (i32.shr_u (local.get $s) (i32.const 16))))
    (i32.or
      (i32.shl (i32.and (local.get $s) (i32.const 0xff)) (i32.const 8))
      (i32.shr_u (local.get $s) (i32.const 8)))))
