! hello.cpp in Fortran: every rank greets, and hears rank 0.
program hello
  use mpi
  use quire
  implicit none
  type(quire_context) :: context
  type(quire_db) :: greetings
  character(len=:), allocatable :: val
  character(len=16) :: key
  integer :: status, threads

  call mpi_init_thread(MPI_THREAD_MULTIPLE, threads, status)
  call quire_context_open_mpi(MPI_COMM_WORLD, 'hello-repository', context, status)
  call check()
  call quire_db_open(context, 'greetings', greetings, status)
  call check()
  write (key, '(a, i0)') 'rank ', quire_context_rank(context)
  call quire_db_put(greetings, trim(key), 'hello', status)
  call check()
  call quire_db_barrier(greetings, QUIRE_MEMTABLE, status)
  call check()
  call quire_db_get(greetings, 'rank 0', val, status)
  call check()
  write (*, '(a)') 'rank 0 says ' // val // ' to ' // trim(key)
  call quire_db_close(greetings, status)
  call check()
  call quire_context_close(context, status)
  call check()
  call mpi_finalize(status)

contains

  ! Ends the job, with the reason, if the last call failed.
  subroutine check()
    integer :: ignored
    if (status == QUIRE_OK) return
    write (*, '(a)') quire_error_message()
    call mpi_abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine check

end program hello
