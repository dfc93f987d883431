! Calls of Quire's Fortran module after a rank was late, inside a function that Quire calls, in a
! forked child, and with what is closed.
!
!   refusals_test REPOSITORY   (a directory that is not there yet, and is left behind)
module closing_update
  use, intrinsic :: iso_c_binding
  use quire
  implicit none
  type(quire_context) :: context
contains
  ! Tries to close the context that it is called in.
  recursive integer(c_int) function close_it(key, present, argument, updated, answer, user) bind(c)
    type(quire_bytes), value :: key, argument
    type(c_ptr), value :: present, updated, answer, user
    integer :: status
    close_it = QUIRE_BUSY
    if (key%size + argument%size == 0 .or. c_associated(present) .or. c_associated(user)) return
    if (.not. (c_associated(updated) .and. c_associated(answer))) return
    call quire_context_close(context, status)
    if (status == QUIRE_INVALID_ARGUMENT) close_it = QUIRE_NOT_FOUND
  end function close_it
end module closing_update

program refusals_test
  use mpi
  use quire
  use closing_update
  implicit none
  interface
    integer(c_int) function fork() bind(c)
      import :: c_int
    end function fork
    integer(c_int) function waitpid(child, outcome, flags) bind(c)
      import :: c_int
      integer(c_int), value :: child, flags
      integer(c_int), intent(out) :: outcome
    end function waitpid
    integer(c_int) function alarm(seconds) bind(c)
      import :: c_int
      integer(c_int), value :: seconds
    end function alarm
    integer(c_int) function sleep(seconds) bind(c)
      import :: c_int
      integer(c_int), value :: seconds
    end function sleep
    subroutine end_child(code) bind(c, name='_exit')
      import :: c_int
      integer(c_int), value :: code
    end subroutine end_child
  end interface
  integer, parameter :: tries = 10
  integer :: rank, ranks, provided, status, tried
  logical :: in_child = .false.
  character(len=200) :: repository
  type(quire_options) :: options
  type(quire_db) :: db, other
  type(quire_batch) :: batch
  type(quire_iter) :: iter
  type(quire_event) :: event
  type(quire_dataset_writer) :: writer

  call mpi_init_thread(MPI_THREAD_MULTIPLE, provided, status)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, status)
  call mpi_comm_size(MPI_COMM_WORLD, ranks, status)
  call get_command_argument(1, repository)
  call quire_options_create(options, status)
  call quire_options_set(options, 'timeout_ms', '700', status)
  call expect_ok('options_set')
  if (ranks > 1) call check_late_rank()
  call open_all()
  call check_inside()
  call check_forked_child()
  call check_closed()
  call quire_options_destroy(options)
  call mpi_finalize(status)

contains

  ! With a context of its own, whose ranks may part within a call.
  subroutine check_late_rank()
    call quire_context_open_mpi(MPI_COMM_WORLD, repository, context, status, options)
    call expect_ok('context_open_mpi of ranks in a hurry')
    call quire_db_open(context, 'late', db, status)
    if (is_parted()) return
    call expect(status == QUIRE_OK .or. status == QUIRE_TIMED_OUT, 'db_open')
    if (status == QUIRE_OK) call let_a_barrier_time_out()
    call quire_context_close(context, status)
    call expect_ok('context_close after a late rank')
  end subroutine check_late_rank

  subroutine let_a_barrier_time_out()
    integer(c_int) :: slept
    character(len=:), allocatable :: val
    if (rank == ranks - 1) slept = sleep(2_c_int)
    call quire_db_barrier(db, QUIRE_MEMTABLE, status)
    if (is_parted()) return
    call expect(status == QUIRE_TIMED_OUT, 'a barrier with a late rank')
    call expect(index(quire_error_message(), 'timeout_ms') > 0, 'what to raise')
    call wait_for_all()
    call quire_db_put(db, 'key', 'value', status)
    call expect_ok('put after a time-out')
    call wait_for_all()
    call quire_db_get(db, 'key', val, status)
    call expect(status == QUIRE_OK .and. val == 'value', 'get after a time-out')
    call wait_for_all()
  end subroutine let_a_barrier_time_out

  ! Once more where this machine was so busy that a rank came too late again.
  subroutine wait_for_all()
    do tried = 1, tries
      call quire_db_barrier(db, QUIRE_MEMTABLE, status)
      if (status /= QUIRE_TIMED_OUT) exit
    end do
    if (.not. is_parted()) call expect_ok('barrier after a time-out')
  end subroutine wait_for_all

  ! Whether a rank ended a call at the moment in which another gave it up: all later ones say so.
  logical function is_parted()
    is_parted = status == QUIRE_PEER_FAILED
    if (is_parted) print '(a)', 'skipped: the ranks parted within one call'
  end function is_parted

  subroutine open_all()
    call quire_context_open_mpi(MPI_COMM_WORLD, repository, context, status)
    call expect_ok('context_open_mpi')
    call quire_db_open(context, 'db', db, status)
    call expect_ok('db_open')
    call quire_db_put(db, 'key', 'value', status)
    call expect_ok('db_put')
    call quire_db_register_update(db, 1, close_it, status)
    call expect_ok('db_register_update')
    call quire_db_checkpoint(db, trim(repository) // '-saved', event, status)
    call expect_ok('db_checkpoint')
    call quire_event_wait(event, status)
    call expect_ok('event_wait')
    call quire_iter_create(db, iter, status)
    call expect_ok('iter_create')
    call quire_batch_create(batch, status)
    call quire_batch_put(batch, 'key', 'value', status)
    call expect_ok('batch_put')
    call quire_dataset_writer_open(context, 'set', writer, status)
    call expect_ok('dataset_writer_open')
  end subroutine open_all

  ! A context that could not be closed is still there.
  subroutine check_inside()
    character(len=:), allocatable :: answer
    call quire_db_update_and_answer(db, 'update', 1, '', answer, status)
    call expect_ok('an update that closes its context')
    call expect(quire_context_rank(context) == rank, 'the context that was not closed')
    call quire_context_barrier(context, status)
    call expect_ok('barrier of the context that was not closed')
  end subroutine check_inside

  subroutine check_forked_child()
    character(len=:), allocatable :: val
    integer(c_int) :: child, outcome, ignored
    child = fork()
    if (child == 0) then
      in_child = .true.
      ignored = alarm(20_c_int)
      call refuse_database('forked')
      call refuse_context('forked')
      call refuse_held('forked')
      call refuse_writer('forked')
      call end_child(0_c_int)
    end if
    call expect(child > 0, 'fork')
    call expect(waitpid(child, outcome, 0_c_int) == child .and. outcome == 0, 'the forked child')
    call quire_db_get(db, 'key', val, status)
    call expect(status == QUIRE_OK .and. val == 'value', 'get behind the child')
    call quire_context_barrier(context, status)
    call expect_ok('barrier behind the child')
  end subroutine check_forked_child

  subroutine check_closed()
    call quire_iter_destroy(iter)
    call quire_event_destroy(event)
    call quire_dataset_writer_finish(writer, status)
    call expect_ok('finish')
    call refuse_writer('finished')
    call quire_dataset_writer_destroy(writer)
    call refuse_writer('writer')
    call quire_db_close(db, status)
    call expect_ok('db_close')
    call refuse_database('closed')
    call quire_batch_destroy(batch)
    call quire_context_close(context, status)
    call expect_ok('context_close')
    call refuse_context('context')
    call quire_context_close(context, status)
    call expect_ok('context_close of nothing')
    call refuse_held('null')
  end subroutine check_closed

  subroutine refuse_database(reason)
    character(len=*), intent(in) :: reason
    character(len=:), allocatable :: text
    integer(c_int64_t) :: counted
    integer :: owner
    type(quire_iter) :: walk
    type(quire_event) :: another
    call quire_db_put(db, 'k', 'v', status)
    call expect_refused('db_put', reason)
    call quire_db_delete(db, 'k', status)
    call expect_refused('db_delete', reason)
    call quire_db_get(db, 'key', text, status)
    call expect_refused('db_get', reason)
    call expect(len(text) == 0, 'what a refused get gives')
    call quire_db_owner(db, 'key', owner, status)
    call expect_refused('db_owner', reason)
    call quire_db_write(db, batch, status)
    call expect_refused('db_write', reason)
    call quire_db_register_update(db, 2, close_it, status)
    call expect_refused('db_register_update', reason)
    call quire_db_update(db, 'key', 1, '', status)
    call expect_refused('db_update', reason)
    call quire_db_update_and_answer(db, 'key', 1, '', text, status)
    call expect_refused('db_update_and_answer', reason)
    call quire_db_fence(db, status)
    call expect_refused('db_fence', reason)
    call quire_db_flush(db, status)
    call expect_refused('db_flush', reason)
    call quire_db_barrier(db, QUIRE_MEMTABLE, status)
    call expect_refused('db_barrier', reason)
    call quire_db_set_consistency(db, QUIRE_RELAXED, status)
    call expect_refused('db_set_consistency', reason)
    call quire_db_protect(db, QUIRE_READ_WRITE, status)
    call expect_refused('db_protect', reason)
    call quire_db_compact(db, status)
    call expect_refused('db_compact', reason)
    call quire_db_statistic(db, 'flushes', counted, status)
    call expect_refused('db_statistic', reason)
    call quire_db_checkpoint(db, trim(repository) // '-saved', another, status)
    call expect_refused('db_checkpoint', reason)
    call quire_iter_create(db, walk, status)
    call expect_refused('iter_create', reason)
    call quire_db_close(db, status)
    call expect_refused('db_close', reason)
  end subroutine refuse_database

  subroutine refuse_context(reason)
    character(len=*), intent(in) :: reason
    character(len=:), allocatable :: text
    type(quire_event) :: another
    type(quire_dataset_writer) :: second
    call quire_context_describe(context, text, status)
    call expect_refused('context_describe', reason)
    call quire_context_barrier(context, status)
    call expect_refused('context_barrier', reason)
    call quire_context_notify(context, 1, [rank], status)
    call expect_refused('context_notify', reason)
    call quire_context_wait_signal(context, 1, [rank], status)
    call expect_refused('context_wait_signal', reason)
    call quire_context_progress(context, status)
    call expect_refused('context_progress', reason)
    call quire_context_agree(context, QUIRE_OK, '', status)
    call expect_refused('context_agree', reason)
    call quire_context_list_databases(context, text, status)
    call expect_refused('context_list_databases', reason)
    call quire_context_destroy_database(context, 'other', status)
    call expect_refused('context_destroy_database', reason)
    call quire_context_destroy_database_async(context, 'other', another, status)
    call expect_refused('context_destroy_database_async', reason)
    call quire_context_restart(context, trim(repository) // '-saved', 'db', another, status)
    call expect_refused('context_restart', reason)
    call quire_db_open(context, 'other', other, status)
    call expect_refused('db_open', reason)
    call quire_dataset_writer_open(context, 'second', second, status)
    call expect_refused('dataset_writer_open', reason)
  end subroutine refuse_context

  ! An iterator and an event.
  subroutine refuse_held(reason)
    character(len=*), intent(in) :: reason
    character(len=:), allocatable :: text
    integer(c_int64_t) :: bytes_done, bytes_total
    call quire_iter_seek_to_first(iter, status)
    call expect_refused('iter_seek_to_first', reason)
    call quire_iter_seek_to_last(iter, status)
    call expect_refused('iter_seek_to_last', reason)
    call quire_iter_seek(iter, 'key', status)
    call expect_refused('iter_seek', reason)
    call quire_iter_next(iter, status)
    call expect_refused('iter_next', reason)
    call quire_iter_prev(iter, status)
    call expect_refused('iter_prev', reason)
    call quire_iter_key(iter, text, status)
    call expect(status == QUIRE_INVALID_ARGUMENT .and. len(text) == 0, 'iter_key')
    call quire_iter_value(iter, text, status)
    call expect(status == QUIRE_INVALID_ARGUMENT .and. len(text) == 0, 'iter_value')
    call quire_iter_status(iter, status)
    call expect_refused('iter_status', reason)
    call expect(.not. quire_iter_valid(iter), 'iter_valid')
    call quire_event_wait(event, status)
    call expect_refused('event_wait', reason)
    call quire_event_progress(event, bytes_done, bytes_total, status)
    call expect_refused('event_progress', reason)
    ! A child that asks until it is ready comes to quire_event_wait, which says why not.
    call expect(quire_event_ready(event) .eqv. in_child, 'event_ready')
  end subroutine refuse_held

  subroutine refuse_writer(reason)
    character(len=*), intent(in) :: reason
    call quire_dataset_writer_begin_epoch(writer, 1_8, status)
    call expect_refused('dataset_writer_begin_epoch', reason)
    call quire_dataset_writer_put(writer, 'key', 'value', status)
    call expect_refused('dataset_writer_put', reason)
    call quire_dataset_writer_end_epoch(writer, status)
    call expect_refused('dataset_writer_end_epoch', reason)
    if (reason /= 'finished') then
      call quire_dataset_writer_finish(writer, status)
      call expect_refused('dataset_writer_finish', reason)
    end if
  end subroutine refuse_writer

  ! Ends the child, or the job.
  subroutine expect(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what
    integer :: ignored
    if (good) return
    write (0, *) 'rank', rank, ': ', what, status, quire_error_message()
    flush (0)
    if (in_child) call end_child(1_c_int)
    call mpi_abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine expect

  subroutine expect_ok(what)
    character(len=*), intent(in) :: what
    call expect(status == QUIRE_OK, what)
  end subroutine expect_ok

  subroutine expect_refused(what, reason)
    character(len=*), intent(in) :: what, reason
    call expect(status == QUIRE_INVALID_ARGUMENT, what)
    call expect(index(quire_error_message(), reason) > 0, what // ': the message')
  end subroutine expect_refused

end program refusals_test
