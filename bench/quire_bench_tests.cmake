# quire_bench_test(name ranks arguments...): bench_test.py runs quire-bench and looks at what it
# prints.
function(quire_bench_test name ranks)
  quire_add_parallel_test(
    bench.${name} ${ranks} 120 auto python3 "${CMAKE_CURRENT_SOURCE_DIR}/bench_test.py"
    "${PROJECT_SOURCE_DIR}/scripts/mpirun" ${ranks} $<TARGET_FILE:quire-bench> ${ARGN})
endfunction()

quire_bench_test(engine 1 engine --value-bytes 100,4096 --volume-bytes 2000000 --reads 200
                 --repetitions 1)
quire_bench_test(basic 2 basic --count 200 --value-bytes 8,4096 --threads 2 --repetitions 1)
quire_bench_test(basic_sequential 3 basic --count 50 --value-bytes 8 --consistency sequential
                 --level memtable --transport mpi --repetitions 1)
quire_bench_test(workload 2 workload --count 50 --value-bytes 1000 --protect --repetitions 1)
quire_bench_test(small 2 small --opens 2 --volume-mib 4 --repetitions 1)
quire_bench_test(idle 2 idle --seconds 0.2 --repetitions 1)
quire_bench_test(latency 2 latency --count 50 --repetitions 1)
quire_bench_test(limits 1 limits --bytes 4194304 --repetitions 1)
quire_bench_test(kmer 2 kmer --genome-bases 5000 --coverage 10 --repetitions 1)
quire_bench_test(cr 3 cr --count 100 --value-bytes 2000 --repetitions 1)
quire_bench_test(cr_cold 2 cr --count 100 --value-bytes 100 --change-percent 10 --cache cold
                 --repetitions 1)
quire_bench_test(group 2 group --count 200 --gets 200 --repetitions 1)
quire_bench_test(partition 1 partition --keys 20000 --partitions 16,1024 --questions 1000)
quire_bench_test(partition_write 2 partition --figure 8 --rank-bytes 1048576 --buffer-bytes 262144
                 --network-mb-per-s 200)
quire_bench_test(partition_sizes 3 partition --figure 9 --rank-bytes 1048576 --pair-bytes 16,100)
quire_bench_test(partition_query 3 partition --figure 10 --rank-bytes 1048576 --queries 30)
quire_bench_test(stream 1 stream --total-mib 2 --variable-bytes 4096,1048576 --repetitions 1)
quire_bench_test(stream_ranks 3 stream --figure 6 --total-mib 4 --repetitions 1)
quire_bench_test(stream_small 1 stream --figure small --variables 20 --repetitions 1)
quire_bench_test(stream_steps 1 stream --figure 7 --blocks 20 --edge 16 --sweeps 2 --steps 3)
quire_bench_test(stream_steps_ranks 2 stream --figure 10 --blocks 20 --edge 16 --sweeps 2 --steps 3)
quire_bench_test(stream_reads 1 stream --figure 8 --object-bytes 4096,1048576 --repetitions 1)
quire_bench_test(stream_deltas 1 stream --figure 9 --object-mib 1 --changed-percent 1,100)
quire_bench_test(stream_wait 2 stream --figure wait --count 50)
if(TARGET quire_streamd_program)
  quire_bench_test(stream_remote 1 stream --figure remote --object-bytes 65536,1048576
                   --repetitions 1 --daemon $<TARGET_FILE:quire_streamd_program>)
endif()
if(TARGET Quire::leveldb)
  quire_bench_test(mdhim 3 mdhim --count 100 --value-bytes 8,4096 --repetitions 1)
endif()
