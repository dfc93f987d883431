! Quire's own Fortran module, on the ranks of MPI_COMM_WORLD: every kind of call once.
!
!   quire_test REPOSITORY   (a directory that is not there yet, and is left behind)
module told_update
  use, intrinsic :: iso_c_binding
  use quire
  implicit none
contains
  ! Puts the argument behind what is there, and answers what was there.
  recursive integer(c_int) function append(key, present, argument, updated, answer, user) bind(c)
    type(quire_bytes), value :: key, argument
    type(c_ptr), value :: present, updated, answer, user
    type(quire_bytes), pointer :: there
    character(len=:), allocatable :: before
    integer :: status
    before = ''
    if (c_associated(present)) then
      call c_f_pointer(present, there)
      before = quire_bytes_at(there)
    end if
    append = QUIRE_INVALID_ARGUMENT
    if (key%size == 0 .or. c_associated(user)) return
    call quire_value_set(answer, 'was ' // before, status)
    if (status /= QUIRE_OK) return
    call quire_value_set(updated, before // quire_bytes_at(argument), status)
    append = int(status, c_int)
  end function append

  ! The rank of the key's first byte.
  recursive integer(c_int) function by_first_byte(key, key_size, rank_count, user) bind(c)
    type(c_ptr), value :: key, user
    integer(c_size_t), value :: key_size
    integer(c_int), value :: rank_count
    character(kind=c_char), pointer :: bytes(:)
    by_first_byte = -1
    if (c_associated(user)) return
    call c_f_pointer(key, bytes, [key_size])
    by_first_byte = mod(ichar(bytes(1)), rank_count)
  end function by_first_byte
end module told_update

program quire_test
  use mpi
  use quire
  use told_update
  implicit none
  integer, parameter :: pairs = 50
  integer :: rank, ranks, provided, status, owner, i, other, seen, all_seen
  integer(kind=8) :: flushes
  character(len=200) :: repository
  character(len=:), allocatable :: val, key, text, last
  type(quire_options) :: options
  type(quire_context) :: context
  type(quire_db) :: db
  type(quire_batch) :: batch
  type(quire_iter) :: iter
  type(quire_event) :: event

  call mpi_init_thread(MPI_THREAD_MULTIPLE, provided, status)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, status)
  call mpi_comm_size(MPI_COMM_WORLD, ranks, status)
  call get_command_argument(1, repository)

  call quire_options_create(options, status)
  call expect_ok('options_create')
  call quire_options_set(options, 'memtable_bytes', '1MiB', status)
  call expect_ok('options_set')
  call quire_options_set(options, 'memtable_byte', '1MiB', status)
  call expect(status == QUIRE_INVALID_ARGUMENT, 'a wrong name')
  call expect(index(quire_error_message(), 'memtable_bytes') > 0, 'the nearest name')
  call expect(quire_code_name(QUIRE_NOT_FOUND) == 'not found', 'code_name')
  call expect(len(quire_version()) >= 5, 'version')

  call quire_context_open_mpi(MPI_COMM_WORLD, repository, context, status, options)
  call expect_ok('context_open_mpi')
  call expect(quire_context_rank(context) == rank, 'context_rank')
  call expect(quire_context_size(context) == ranks, 'context_size')
  call quire_context_describe(context, text, status)
  call expect(status == QUIRE_OK .and. len(text) > 0, 'context_describe')
  call quire_db_open(context, 'fortran', db, status, options)
  call expect_ok('db_open')

  call check_pairs()
  call check_modes()
  call check_batch()
  call check_walk()

  call check_updates()
  call check_persistence()
  call check_reader()
  call check_dataset()
  call check_partitioner()

  call quire_db_close(db, status)
  call expect_ok('db_close')
  call quire_db_put(db, 'k', 'v', status)
  call expect(status == QUIRE_INVALID_ARGUMENT, 'put after close')
  call quire_context_destroy_database(context, 'fortran', status)
  call expect_ok('destroy_database')
  call quire_context_destroy_database(context, 'fortran', status)
  call expect(status == QUIRE_NOT_FOUND, 'second destroy_database')
  call quire_context_close(context, status)
  call expect_ok('context_close')
  call quire_options_destroy(options)
  call mpi_finalize(status)

contains

  ! A checkpoint that goes on while this writes, and the way back from it.
  subroutine check_persistence()
    integer(kind=8) :: bytes_done, bytes_total
    character(len=:), allocatable :: checkpoints
    checkpoints = trim(repository) // '-checkpoints'
    call quire_db_put(db, 'persistent', 'before', status)
    call expect_ok('put before the checkpoint')
    call quire_db_checkpoint(db, checkpoints, event, status, keep=1)
    call expect_ok('checkpoint')
    call quire_db_put(db, 'persistent', 'after', status)
    call expect_ok('put behind the checkpoint')
    call quire_event_wait(event, status)
    call expect_ok('event_wait')
    call expect(quire_event_ready(event), 'event_ready')
    call quire_event_progress(event, bytes_done, bytes_total, status)
    call expect(status == QUIRE_OK .and. bytes_done == bytes_total, 'event_progress')
    call quire_event_destroy(event)
    call quire_db_close(db, status)
    call expect_ok('close behind the checkpoint')
    call quire_context_destroy_database_async(context, 'fortran', event, status)
    call expect_end('destroy_database_async')
    call quire_context_restart(context, checkpoints, 'fortran', event, status)
    call expect_saved('restart')
    call quire_context_barrier(context, status)
    call expect_ok('all have read it')
    call quire_db_put(db, 'persistent', 'behind', status)
    call expect_ok('put behind the restart')
    call quire_db_close(db, status)
    call expect_ok('close behind the restart')
    call quire_context_restart(context, checkpoints, 'fortran', event, status)
    call expect(status == QUIRE_INVALID_ARGUMENT, 'there is a database')
    call quire_context_restart(context, checkpoints, 'fortran', event, status, replace=.true.)
    call expect_saved('restart that replaces')
  end subroutine check_persistence

  ! EVENT was begun, and ends well.
  subroutine expect_end(what)
    character(len=*), intent(in) :: what
    call expect_ok(what)
    call quire_event_wait(event, status)
    call expect_ok('the end of ' // what)
    call quire_event_destroy(event)
  end subroutine expect_end

  ! EVENT is of a restart, behind which the database has what the checkpoint had, and is open.
  subroutine expect_saved(what)
    character(len=*), intent(in) :: what
    character(len=:), allocatable :: kept
    call expect_end(what)
    call quire_db_open(context, 'fortran', db, status, options)
    call expect_ok('open behind the ' // what)
    call quire_db_get(db, 'persistent', kept, status)
    call expect(status == QUIRE_OK .and. kept == 'before', 'what the checkpoint had: ' // what)
  end subroutine expect_saved

  subroutine check_updates()
    character(len=:), allocatable :: answer
    call quire_db_register_update(db, 4, append, status)
    call expect_ok('db_register_update')
    call quire_context_barrier(context, status)
    call quire_db_update(db, name_of(rank, -2), 4, 'one ', status)
    call expect_ok('db_update')
    call quire_db_update_and_answer(db, name_of(rank, -2), 4, 'two', answer, status)
    call expect(status == QUIRE_OK .and. answer == 'was one ' .and. len(answer) == 8, 'the answer')
    call quire_db_update_and_answer(db, name_of(rank, -2), 5, 'two', answer, status)
    call expect(status == QUIRE_INVALID_ARGUMENT .and. len(answer) == 0, 'no such update')
    call quire_db_get(db, name_of(rank, -2), val, status)
    call expect(status == QUIRE_OK .and. val == 'one two', 'what the updates left')
    call quire_context_agree(context, merge(QUIRE_BUSY, QUIRE_OK, rank == ranks - 1), 'no', status)
    call expect(status == QUIRE_BUSY, 'context_agree')
    call quire_context_agree(context, QUIRE_OK, '', status)
    call expect_ok('context_agree on success')
    call quire_context_list_databases(context, text, status)
    call expect(status == QUIRE_OK .and. text == 'fortran' // new_line('a'), 'list_databases')
  end subroutine check_updates

  ! Beside this writer: what is in tables, no more, until it looks again.
  subroutine check_reader()
    type(quire_reader) :: reader
    call quire_db_put(db, name_of(rank, -3), 'first', status)
    call expect_ok('put for the reader')
    call quire_db_barrier(db, QUIRE_MEMTABLE, status)
    call quire_db_flush(db, status)
    call expect_ok('db_flush')
    call quire_context_barrier(context, status)
    call quire_reader_open(trim(repository) // '/fortran', reader, status, options)
    call expect_ok('reader_open')
    call quire_reader_iter_create(reader, iter, status)
    call expect_ok('reader_iter_create')
    call quire_iter_seek(iter, name_of(rank, -3), status)
    call quire_iter_value(iter, val, status)
    call expect(status == QUIRE_OK .and. val == 'first', 'a walk of the reader')
    call quire_iter_destroy(iter)
    call quire_context_barrier(context, status)
    call quire_db_put(db, name_of(rank, -3), 'second', status)
    call quire_db_barrier(db, QUIRE_SSTABLE, status)
    call expect_ok('barrier behind the second')
    call quire_reader_get(reader, name_of(rank, -3), val, status)
    call expect(status == QUIRE_OK .and. val == 'first', 'before it has looked again')
    call quire_reader_refresh(reader, status)
    call expect_ok('reader_refresh')
    call quire_reader_get(reader, name_of(rank, -3), val, status)
    call expect(status == QUIRE_OK .and. val == 'second', 'after it has looked again')
    call quire_reader_get(reader, 'absent', val, status)
    call expect(status == QUIRE_NOT_FOUND .and. len(val) == 0, 'absent for the reader')
    call quire_reader_destroy(reader)
    call quire_reader_open(trim(repository) // '/none', reader, status)
    call expect(status == QUIRE_NOT_FOUND, 'a reader of nothing')
  end subroutine check_reader

  ! Epochs 100 and 200, in which each rank puts a key of its own and one that all put.
  subroutine check_dataset()
    type(quire_options) :: chosen
    type(quire_dataset_reader) :: reader
    call quire_options_create(chosen, status)
    call quire_options_set(chosen, 'dataset_format', 'fastest', status)
    call expect_refused('no such format', 'ribbon')
    call quire_options_set(chosen, 'dataset_format', 'cuckoo', status)
    call expect_ok('the format of a dataset')
    call write_dataset(chosen)
    call quire_dataset_reader_open(trim(repository) // '/steps', reader, status, chosen)
    call expect_ok('dataset_reader_open')
    call quire_options_destroy(chosen)
    call check_epochs(reader)
    call check_values(reader)
    call check_scan(reader)
    call check_verify(reader)
    call quire_dataset_reader_destroy(reader)
    call quire_dataset_reader_open(trim(repository) // '/none', reader, status)
    call expect(status == QUIRE_NOT_FOUND, 'a dataset that is not there')
    call quire_dataset_reader_refresh(reader, status)
    call expect_refused('refresh of nothing', 'reader')
    call quire_dataset_reader_verify(reader, 200_8, status)
    call expect_refused('verification of nothing', 'reader')
  end subroutine check_dataset

  ! A database and a dataset whose keys have their ranks by a function.
  subroutine check_partitioner()
    type(quire_options) :: chosen
    type(quire_db) :: by_byte
    type(quire_dataset_writer) :: writer
    type(quire_dataset_reader) :: reader
    type(quire_dataset_values) :: values
    call quire_options_create(chosen, status)
    call quire_options_set_partitioner(chosen, 'hash', by_first_byte, status)
    call quire_db_open(context, 'by_byte', by_byte, status, chosen)
    call expect_refused('a partitioner with the name of none', 'hash')
    call quire_options_set_partitioner(chosen, 'first byte', by_first_byte, status)
    call expect_ok('options_set_partitioner')
    call quire_db_open(context, 'by_byte', by_byte, status, chosen)
    call expect_ok('open with a partitioner')
    call quire_db_owner(by_byte, char(5), owner, status)
    call expect(status == QUIRE_OK .and. owner == mod(5, ranks), 'the owner by the first byte')
    call quire_db_close(by_byte, status)
    call expect_ok('close with a partitioner')
    call quire_options_set_dataset_partitioner(chosen, 'first byte', by_first_byte, status)
    call expect_ok('options_set_dataset_partitioner')
    call quire_dataset_writer_open(context, 'ranges', writer, status, chosen)
    call expect_ok('a dataset with a partitioner')
    call write_epoch(writer, 100_8)
    call quire_dataset_writer_finish(writer, status)
    call expect_ok('finish with a partitioner')
    call quire_dataset_writer_destroy(writer)
    call quire_dataset_reader_open(trim(repository) // '/ranges', reader, status, chosen)
    call expect_ok('a reader with a partitioner')
    call quire_dataset_reader_get(reader, 100_8, 'all ', values, status)
    call expect(status == QUIRE_OK .and. quire_dataset_values_count(values) == ranks, &
                'values by the first byte')
    call quire_dataset_values_destroy(values)
    call quire_dataset_reader_destroy(reader)
    call quire_options_set_dataset_first_match(chosen, .true., status)
    call expect_ok('options_set_dataset_first_match')
    call quire_dataset_reader_open(trim(repository) // '/ranges', reader, status, chosen)
    call expect_ok('a reader of first matches')
    call quire_dataset_reader_get(reader, 100_8, 'all ', values, status)
    call expect(status == QUIRE_OK .and. quire_dataset_values_count(values) == 1, 'one value')
    call quire_dataset_values_destroy(values)
    call quire_dataset_reader_destroy(reader)
    call quire_options_set_dataset_partitioner(chosen, 'another', by_first_byte, status)
    call quire_dataset_reader_open(trim(repository) // '/ranges', reader, status, chosen)
    call expect_refused('another partitioner', 'first byte')
    call quire_options_destroy(chosen)
  end subroutine check_partitioner

  subroutine write_dataset(chosen)
    type(quire_options), intent(in) :: chosen
    type(quire_dataset_writer) :: writer
    integer(kind=8) :: number
    call quire_dataset_writer_open(context, 'steps', writer, status, chosen)
    call expect_ok('dataset_writer_open')
    call quire_dataset_writer_last_epoch(writer, number, status)
    call expect(status == QUIRE_NOT_FOUND .and. number == 0, 'no last epoch')
    call quire_dataset_writer_put(writer, 'early', 'x', status)
    call expect_refused('put before an epoch', 'no epoch has begun')
    call write_epoch(writer, 100_8)
    call quire_dataset_writer_begin_epoch(writer, 100_8, status)
    call expect_refused('an epoch twice', 'is not larger')
    call write_epoch(writer, 200_8)
    call quire_dataset_writer_last_epoch(writer, number, status)
    call expect(status == QUIRE_OK .and. number == 200, 'the last epoch')
    call check_writer_counts(writer)
    call quire_dataset_writer_finish(writer, status)
    call expect_ok('dataset_writer_finish')
    call quire_dataset_writer_put(writer, 'late', 'x', status)
    call expect_refused('put into a finished dataset', 'finished')
    call quire_dataset_writer_destroy(writer)
    call quire_dataset_writer_put(writer, 'late', 'x', status)
    call expect_refused('put with a destroyed handle', 'writer')
    call quire_dataset_writer_open(context, 'steps', writer, status, options)
    call expect_refused('another format than it has', 'format')
  end subroutine write_dataset

  subroutine write_epoch(writer, number)
    type(quire_dataset_writer), intent(in) :: writer
    integer(kind=8), intent(in) :: number
    call quire_dataset_writer_begin_epoch(writer, number, status)
    call expect_ok('dataset_writer_begin_epoch')
    call quire_dataset_writer_put(writer, name_of(rank, int(number)), ' own ', status)
    call expect_ok('dataset_writer_put')
    call quire_dataset_writer_put(writer, 'all ', name_of(rank, int(number)), status)
    call expect_ok('dataset_writer_put of a key of all')
    call quire_dataset_writer_end_epoch(writer, status)
    call expect_ok('dataset_writer_end_epoch')
  end subroutine write_epoch

  ! Of two epochs with two pairs of this rank each.
  subroutine check_writer_counts(writer)
    type(quire_dataset_writer), intent(in) :: writer
    integer(kind=8) :: counted
    call quire_dataset_writer_statistic(writer, 'pairs', counted, status)
    call expect(status == QUIRE_OK .and. counted == 4, 'dataset_writer_statistic')
    call quire_dataset_writer_statistic(writer, 'pair_bytes', counted, status)
    call expect(status == QUIRE_OK .and. counted == 2 * (4 + 5) + 4 * len(name_of(rank, 100)), &
                'bytes of pairs')
    call quire_dataset_writer_statistic(writer, 'pair', counted, status)
    call expect(status == QUIRE_NOT_FOUND .and. counted == 0, 'no such count of a writer')
  end subroutine check_writer_counts

  subroutine check_epochs(reader)
    type(quire_dataset_reader), intent(in) :: reader
    type(quire_dataset_epoch), allocatable :: epochs(:)
    call quire_dataset_reader_refresh(reader, status)
    call expect_ok('dataset_reader_refresh')
    call quire_dataset_reader_epochs(reader, epochs, status)
    call expect(status == QUIRE_OK .and. size(epochs) == 2, 'dataset_reader_epochs')
    call expect(all(epochs%number == [100, 200]), 'numbers of epochs')
    call expect(all(epochs%pair_count == 2 * ranks), 'pairs of epochs')
    call expect(all(epochs%rank_count == ranks), 'ranks of epochs')
    call expect(all(epochs%unix_time > 1500000000), 'times of epochs')
  end subroutine check_epochs

  subroutine check_values(reader)
    type(quire_dataset_reader), intent(in) :: reader
    type(quire_dataset_values) :: values
    integer(kind=8) :: epoch
    integer :: by
    call quire_dataset_reader_get(reader, 100_8, 'all ', values, status)
    call expect(status == QUIRE_OK, 'dataset_reader_get')
    call expect(quire_dataset_values_count(values) == ranks, 'dataset_values_count')
    do i = 1, quire_dataset_values_count(values)
      call quire_dataset_values_at(values, i, epoch, by, val, status)
      call expect(status == QUIRE_OK .and. epoch == 100 .and. by == i - 1, 'dataset_values_at')
      call expect(val == name_of(by, 100) .and. len(val) == len(name_of(by, 100)), 'a value of all')
    end do
    do i = 0, ranks + 1, ranks + 1
      call quire_dataset_values_at(values, i, epoch, by, val, status)
      call expect_refused('an index that is outside', 'the index is outside')
      call expect(len(val) == 0, 'no value')
    end do
    call quire_dataset_values_destroy(values)
    call expect(quire_dataset_values_count(values) == 0, 'values that are destroyed')
    call quire_dataset_reader_get(reader, 100_8, 'all', values, status)
    call expect(status == QUIRE_NOT_FOUND, 'a key without its blank')
    call expect(quire_dataset_values_count(values) == 0, 'no values')
    call quire_dataset_reader_get(reader, 300_8, 'all ', values, status)
    call expect(status == QUIRE_NOT_FOUND .and. index(quire_error_message(), '300') > 0, 'no epoch')
    call check_trajectory(reader)
  end subroutine check_values

  subroutine check_trajectory(reader)
    type(quire_dataset_reader), intent(in) :: reader
    type(quire_dataset_values) :: values
    integer(kind=8) :: epoch
    integer :: by
    call quire_dataset_reader_trajectory(reader, 'all ', values, status)
    call expect_ok('dataset_reader_trajectory')
    call expect(quire_dataset_values_count(values) == 2 * ranks, 'values of a trajectory')
    call quire_dataset_values_at(values, 2 * ranks, epoch, by, val, status)
    call expect(status == QUIRE_OK .and. epoch == 200 .and. by == ranks - 1, 'the last value')
    call expect(val == name_of(by, 200), 'what the last value is')
    call quire_dataset_values_destroy(values)
    call quire_dataset_reader_trajectory(reader, 'nobody', values, status)
    call expect(status == QUIRE_NOT_FOUND, 'no trajectory')
  end subroutine check_trajectory

  ! All pairs of an epoch, those of this rank alone, and no epoch.
  subroutine check_scan(reader)
    type(quire_dataset_reader), intent(in) :: reader
    type(quire_dataset_scan) :: scan
    integer :: by
    call quire_dataset_scan_create(reader, 200_8, scan, status)
    call expect_ok('dataset_scan_create')
    call expect(pairs_of(scan) == 2 * ranks, 'pairs of an epoch')
    call quire_dataset_scan_next(scan, status)
    call expect_refused('next at the end', 'at its end')
    call quire_dataset_scan_pair(scan, by, key, val, status)
    call expect_refused('a pair at the end', 'at its end')
    call expect(len(key) == 0 .and. len(val) == 0, 'no pair')
    call quire_dataset_scan_destroy(scan)
    call expect(.not. quire_dataset_scan_valid(scan), 'a scan that is destroyed')
    call quire_dataset_scan_create(reader, 200_8, scan, status, rank, rank + 1)
    call expect_ok('a scan of one rank')
    call quire_dataset_scan_pair(scan, by, key, val, status)
    call expect(status == QUIRE_OK .and. by == rank, 'dataset_scan_pair')
    call expect(key == name_of(rank, 200) .and. val == ' own ' .and. len(val) == 5, 'its own pair')
    call expect(pairs_of(scan) == 2, 'pairs of one rank')
    call quire_dataset_scan_destroy(scan)
    call quire_dataset_scan_create(reader, 300_8, scan, status)
    call expect(status == QUIRE_NOT_FOUND, 'a scan of no epoch')
  end subroutine check_scan

  ! Epochs that are sound and one that is not there, and what the reader counts.
  subroutine check_verify(reader)
    type(quire_dataset_reader), intent(in) :: reader
    type(quire_dataset_values) :: values
    integer(kind=8) :: before, counted
    call quire_dataset_reader_verify(reader, 200_8, status)
    call expect_ok('dataset_reader_verify')
    call quire_dataset_reader_verify(reader, 300_8, status)
    call expect(status == QUIRE_NOT_FOUND, 'verification of no epoch')
    call expect(index(quire_error_message(), '300') > 0, 'which epoch there is not')
    call quire_dataset_reader_statistic(reader, 'queries', before, status)
    call expect_ok('dataset_reader_statistic')
    call quire_dataset_reader_get(reader, 100_8, 'all ', values, status)
    call expect_ok('a get that is counted')
    call quire_dataset_values_destroy(values)
    call quire_dataset_reader_statistic(reader, 'queries', counted, status)
    call expect(status == QUIRE_OK .and. counted == before + 1, 'queries of a reader')
    call quire_dataset_reader_statistic(reader, 'pairs', counted, status)
    call expect(status == QUIRE_NOT_FOUND .and. counted == 0, 'no such count of a reader')
  end subroutine check_verify

  ! How many there are from where it stands.
  integer function pairs_of(scan)
    type(quire_dataset_scan), intent(in) :: scan
    pairs_of = 0
    do while (quire_dataset_scan_valid(scan))
      pairs_of = pairs_of + 1
      call quire_dataset_scan_next(scan, status)
      call expect_ok('dataset_scan_next')
    end do
    call quire_dataset_scan_status(scan, status)
    call expect_ok('dataset_scan_status')
  end function pairs_of

  ! That the last call was not allowed, and that the message has this in it.
  subroutine expect_refused(what, reason)
    character(len=*), intent(in) :: what, reason
    call expect(status == QUIRE_INVALID_ARGUMENT, what)
    call expect(index(quire_error_message(), reason) > 0, what // ': the message')
  end subroutine expect_refused

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    integer :: ignored
    if (holds) return
    write (0, *) 'rank', rank, ': ', what, status, quire_error_message()
    call mpi_abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine expect

  subroutine expect_ok(what)
    character(len=*), intent(in) :: what
    call expect(status == QUIRE_OK, what)
  end subroutine expect_ok

  function name_of(of_rank, number) result(name)
    integer, intent(in) :: of_rank, number
    character(len=:), allocatable :: name
    character(len=32) :: digits
    write (digits, '(I0,A,I0)') of_rank, '/', number
    name = trim(digits)
  end function name_of

  subroutine check_pairs()
    do i = 1, pairs
      call quire_db_put(db, name_of(rank, i), 'value of ' // name_of(rank, i), status)
      call expect_ok('db_put')
    end do
    call quire_db_put(db, 'blanks ', ' at both ends ', status)
    call expect_ok('db_put of blanks')
    call quire_db_fence(db, status)
    call expect_ok('db_fence')
    call quire_db_barrier(db, QUIRE_SSTABLE, status)
    call expect_ok('db_barrier')
    do other = 0, ranks - 1
      do i = 1, pairs
        call quire_db_get(db, name_of(other, i), val, status)
        call expect(status == QUIRE_OK .and. val == 'value of ' // name_of(other, i), 'db_get')
      end do
    end do
    call quire_db_get(db, 'blanks ', val, status)
    call expect(status == QUIRE_OK .and. len(val) == 14 .and. val == ' at both ends ', 'blanks')
    call quire_db_get(db, 'blanks', val, status)
    call expect(status == QUIRE_NOT_FOUND .and. len(val) == 0, 'another key')
    call quire_db_owner(db, 'blanks ', owner, status)
    call expect(status == QUIRE_OK .and. owner >= 0 .and. owner < ranks, 'db_owner')
    call quire_db_statistic(db, 'flushes', flushes, status)
    call expect(status == QUIRE_OK .and. flushes >= 0, 'db_statistic')
    call quire_db_compact(db, status)
    call expect_ok('db_compact')
    call quire_context_barrier(context, status)
    call expect_ok('context_barrier')
  end subroutine check_pairs

  subroutine check_modes()
    integer :: next(1), before(1)
    next(1) = modulo(rank + 1, ranks)
    before(1) = modulo(rank - 1, ranks)
    call quire_db_set_consistency(db, QUIRE_SEQUENTIAL, status)
    call expect_ok('db_set_consistency')
    call quire_db_put(db, name_of(rank, 0), 'signalled', status)
    call expect_ok('sequential put')
    call quire_context_notify(context, 3, before, status)
    call expect_ok('context_notify')
    call quire_context_wait_signal(context, 3, next, status)
    call expect_ok('context_wait_signal')
    call quire_db_get(db, name_of(next(1), 0), val, status)
    call expect(status == QUIRE_OK .and. val == 'signalled', 'get after a signal')
    call quire_context_progress(context, status)
    call expect_ok('context_progress')
    call quire_db_protect(db, QUIRE_PROTECT_READ_ONLY, status)
    call expect_ok('db_protect')
    call quire_db_delete(db, 'k', status)
    call expect(status == QUIRE_READ_ONLY, 'delete while protected')
    call quire_db_protect(db, QUIRE_READ_WRITE, status)
    call expect_ok('db_protect back')
    call quire_db_delete(db, name_of(rank, 0), status)
    call expect_ok('db_delete')
  end subroutine check_modes

  subroutine check_batch()
    call quire_batch_create(batch, status)
    call expect_ok('batch_create')
    call quire_batch_put(batch, 'dropped', 'x', status)
    call quire_batch_clear(batch, status)
    call expect_ok('batch_clear')
    call quire_batch_put(batch, name_of(rank, -1), 'batched', status)
    call expect_ok('batch_put')
    call quire_batch_delete(batch, 'blanks ', status)
    call expect_ok('batch_delete')
    call quire_db_write(db, batch, status)
    call expect_ok('db_write')
    call quire_batch_destroy(batch)
    call quire_db_get(db, name_of(rank, -1), val, status)
    call expect(status == QUIRE_OK .and. val == 'batched', 'what the batch has put')
    call quire_db_barrier(db, QUIRE_MEMTABLE, status)
    call expect_ok('barrier after a batch')
    call quire_db_get(db, 'blanks ', val, status)
    call expect(status == QUIRE_NOT_FOUND, 'what the batch has deleted')
  end subroutine check_batch

  ! All pairs, each at one rank, in order; and back.
  subroutine check_walk()
    call quire_iter_create(db, iter, status)
    call expect_ok('iter_create')
    call quire_iter_seek_to_first(iter, status)
    seen = 0
    last = ''
    do while (quire_iter_valid(iter))
      call quire_iter_key(iter, key, status)
      call expect(status == QUIRE_OK .and. lgt(key, last), 'iter_key')
      call quire_iter_value(iter, val, status)
      call expect(status == QUIRE_OK .and. len(val) >= 7, 'iter_value')
      last = key
      seen = seen + 1
      call quire_iter_next(iter, status)
      call expect_ok('iter_next')
    end do
    call quire_iter_status(iter, status)
    call expect_ok('iter_status')
    call mpi_allreduce(seen, all_seen, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, status)
    call expect(all_seen == ranks * (pairs + 1), 'all pairs')
    if (seen >= 2) then
      call quire_iter_seek_to_last(iter, status)
      call quire_iter_prev(iter, status)
      call expect(status == QUIRE_OK .and. quire_iter_valid(iter), 'iter_prev')
      call quire_iter_seek(iter, last, status)
      call quire_iter_key(iter, key, status)
      call expect(status == QUIRE_OK .and. key == last, 'iter_seek')
    end if
    call quire_iter_destroy(iter)
  end subroutine check_walk

end program quire_test
